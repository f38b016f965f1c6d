#include "bootstrap/launcher.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>

#include "base/rank_limit.h"
#include "base/text.h"
#include "tutti/error.h"

namespace tutti {
namespace {

std::string get(const Environment& environment, const char* variable) {
  const char* value = environment(variable);
  return value != nullptr ? std::string(trimmed(value)) : std::string();
}

int parse_number(std::string_view variable, const std::string& text, int low, int high) {
  const auto value = whole_number<int>(text);
  if (value && low <= *value && *value <= high) return *value;
  throw Error(ErrorCode::kInvalidSetting,
              fmt::format("{}={} is not allowed: it is a whole number from {} to {}", variable, text, low, high));
}

// The process at the other end of MPICH's PMI socket, the same for all ranks of a host, with the time at which it
// started, since process ids come round again.
std::string mpich_identity(const Environment& environment) {
  if (const std::string job = get(environment, "PMI_JOBID"); !job.empty()) return job;
  if (const std::string port = get(environment, "PMI_PORT"); !port.empty()) return port;
  const auto fd = whole_number<int>(get(environment, "PMI_FD"));
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (!fd || ::getsockopt(*fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0) return "";
  std::ifstream file(fmt::format("/proc/{}/stat", peer.pid));
  const std::string stat(std::istreambuf_iterator<char>(file), {});
  // Fields are counted after the command's name, which is in brackets and may hold anything. The 22nd is the time.
  std::string_view left = stat;
  left.remove_prefix(std::min(left.size(), left.rfind(')') + 2));
  for (int field = 3; field < 22; ++field) left.remove_prefix(std::min(left.size(), left.find(' ') + 1));
  return fmt::format("{}.{}", peer.pid, left.substr(0, left.find(' ')));
}

Launch::Hosts hosts_from(std::string_view local, std::string_view all) {
  if (local.empty()) return Launch::Hosts::kUnknown;
  return local == all ? Launch::Hosts::kOne : Launch::Hosts::kSeveral;
}

void describe_torchrun(Launch& launch, const Environment& environment) {
  if (const std::string run = get(environment, "TORCHELASTIC_RUN_ID"); !run.empty()) {
    launch.job = fmt::format("torchrun:{}:{}", run, get(environment, "TORCHELASTIC_RESTART_COUNT"));
  }
  launch.hosts = hosts_from(get(environment, "LOCAL_WORLD_SIZE"), get(environment, "WORLD_SIZE"));
}

void describe_open_mpi(Launch& launch, const Environment& environment) {
  std::string identity = get(environment, "PMIX_NAMESPACE");
  if (identity.empty()) identity = get(environment, "OMPI_MCA_ess_base_jobid");
  if (!identity.empty()) launch.job = "openmpi:" + identity;
  launch.key = get(environment, "OMPI_MCA_orte_precondition_transports");
  launch.hosts = hosts_from(get(environment, "OMPI_COMM_WORLD_LOCAL_SIZE"), get(environment, "OMPI_COMM_WORLD_SIZE"));
  launch.root_hosts = hosts_of_open_mpi_uri(get(environment, "OMPI_MCA_orte_hnp_uri"));
}

void describe_slurm(Launch& launch, const Environment& environment) {
  launch.job = fmt::format("slurm:{}.{}", get(environment, "SLURM_JOB_ID"), get(environment, "SLURM_STEP_ID"));
  for (const char* variable : {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"}) {
    const std::string nodes = get(environment, variable);
    if (nodes.empty()) continue;
    launch.hosts = nodes == "1" ? Launch::Hosts::kOne : Launch::Hosts::kSeveral;
    break;
  }
  for (const char* variable : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    const std::string host = first_slurm_host(get(environment, variable));
    if (host.empty()) continue;
    launch.root_hosts = {host};
    return;
  }
  if (const std::string host = get(environment, "SLURM_LAUNCH_NODE_IPADDR"); !host.empty()) launch.root_hosts = {host};
}

void describe_mpich(Launch& launch, const Environment& environment) {
  // srun speaks PMI too, and knows more; only MPICH's own launcher says how many ranks share a host.
  if (!get(environment, "SLURM_STEP_ID").empty() && get(environment, "MPI_LOCALNRANKS").empty()) {
    launch.launcher = "Slurm";
    describe_slurm(launch, environment);
    return;
  }
  if (const std::string identity = mpich_identity(environment); !identity.empty()) launch.job = "mpich:" + identity;
  launch.hosts = hosts_from(get(environment, "MPI_LOCALNRANKS"), get(environment, "PMI_SIZE"));
}

struct Row {
  const char* launcher;
  const char* starter;  // the command that sets these variables
  const char* rank;
  const char* ranks;
  const char* also;  // must be there too, since others use these names; null: nothing
  void (*describe)(Launch&, const Environment&);
};
constexpr std::array kRows = {
    Row{"torchrun", "torchrun", "RANK", "WORLD_SIZE", "MASTER_ADDR", describe_torchrun},
    Row{"Open MPI", "mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr, describe_open_mpi},
    Row{"MPICH", "mpiexec", "PMI_RANK", "PMI_SIZE", nullptr, describe_mpich},
    Row{"Slurm", "srun", "SLURM_PROCID", "SLURM_NTASKS", nullptr, describe_slurm},
};

// The numbers of a launcher all of whose variables are there.
struct Numbers {
  const Row* row = nullptr;
  int rank = 0;
  int ranks = 1;

  std::string text() const {
    return fmt::format("{}={} and {}={}, which {} sets", row->rank, rank, row->ranks, ranks, row->starter);
  }
};

std::vector<Numbers> complete_numbers(const Config& config, const Environment& environment) {
  std::vector<Numbers> found;
  for (const Row& row : kRows) {
    const std::string rank = get(environment, row.rank);
    const std::string ranks = get(environment, row.ranks);
    if (rank.empty() || ranks.empty()) continue;
    if (row.also != nullptr && get(environment, row.also).empty() && !config.given(Setting::kCommId)) continue;
    Numbers numbers{&row, 0, parse_number(row.ranks, ranks, 1, kMaxRanks)};
    numbers.rank = parse_number(row.rank, rank, 0, numbers.ranks - 1);
    found.push_back(numbers);
  }
  return found;
}

// Whether one launcher's variables may be there because the other one runs inside of it: torchrun's agent is started on
// each host by srun or mpirun, and mpirun in a batch script of Slurm. A world of one rank is never taken for that: each
// of many ranks could believe that it is alone.
bool may_run_inside(const Numbers& inner, const Numbers& outer, const Environment& environment) {
  if (inner.ranks == 1) return false;
  const bool agent = inner.row->describe == describe_torchrun && !get(environment, "TORCHELASTIC_RUN_ID").empty();
  return agent || outer.row->describe == describe_slurm;
}

Error contradiction(const Numbers& one, const Numbers& other) {
  return Error(
      ErrorCode::kInvalidSetting,
      fmt::format("two launchers disagree about this process: {}, but {}. Unset those that are left of an outer "
                  "launcher, or decide with TUTTI_RANK, TUTTI_NRANKS and TUTTI_COMM_ID=host:port",
                  one.text(), other.text()));
}

// Whether any launcher, or a person, has said something about ranks.
bool says_anything(const Config& config, const Environment& environment) {
  if (config.given(Setting::kCommId)) return true;
  return std::ranges::any_of(kRows, [&](const Row& row) {
    return !get(environment, row.rank).empty() || !get(environment, row.ranks).empty();
  });
}

Error incomplete(const Environment& environment) {
  std::string found;
  std::string wanted = "TUTTI_RANK and TUTTI_NRANKS";
  for (const Row& row : kRows) {
    wanted += fmt::format("; {} and {}", row.rank, row.ranks);
    if (row.also != nullptr) wanted += fmt::format(" with {}", row.also);
    for (const char* variable : {row.rank, row.ranks, row.also}) {
      if (variable == nullptr || get(environment, variable).empty()) continue;
      found += fmt::format(" {}={}", variable, get(environment, variable));
    }
  }
  return Error(ErrorCode::kInvalidSetting,
               fmt::format("the environment does not say which rank of how many this process is. Looked for: {}. "
                           "Found:{}. Start it with mpirun, srun or torchrun, or set TUTTI_RANK, TUTTI_NRANKS and "
                           "TUTTI_COMM_ID=host:port",
                           wanted, found.empty() ? " none of these" : found));
}

Launch from_settings(const Config& config) {
  for (const auto& [there, missing] :
       {std::pair(Setting::kRank, Setting::kRanks), std::pair(Setting::kRanks, Setting::kRank)}) {
    if (!config.given(there) || config.given(missing)) continue;
    throw Error(ErrorCode::kInvalidSetting, fmt::format("{}={} is set, but {} is not", config.given_name(there),
                                                        config.text(there), config.given_name(missing)));
  }
  Launch launch;
  launch.launcher = kByHand;
  launch.origin = "TUTTI_RANK and TUTTI_NRANKS say so";
  launch.rank = static_cast<int>(config.integer(Setting::kRank));
  launch.ranks = static_cast<int>(config.integer(Setting::kRanks));
  if (launch.rank >= launch.ranks) {
    throw Error(ErrorCode::kInvalidSetting, fmt::format("TUTTI_RANK={} is not allowed with TUTTI_NRANKS={}: ranks are "
                                                        "counted from 0",
                                                        launch.rank, launch.ranks));
  }
  return launch;
}

}  // namespace

Launch find_launch(const Config& config, const Environment& environment) {
  if (config.given(Setting::kRank) || config.given(Setting::kRanks)) return from_settings(config);
  const std::vector<Numbers> found = complete_numbers(config, environment);
  if (found.empty()) {
    if (says_anything(config, environment)) throw incomplete(environment);
    Launch alone;
    alone.origin = "no launcher has started it";
    return alone;
  }
  const Numbers& first = found.front();
  Launch launch;
  launch.launcher = first.row->launcher;
  launch.rank = first.rank;
  launch.ranks = first.ranks;
  launch.origin = first.text();
  for (const Numbers& other : found) {
    if (other.rank == first.rank && other.ranks == first.ranks) continue;
    if (!may_run_inside(first, other, environment)) throw contradiction(first, other);
    launch.origin += fmt::format(" inside of another launcher ({}={}, {}={})", other.row->rank, other.rank,
                                 other.row->ranks, other.ranks);
  }
  first.row->describe(launch, environment);
  return launch;
}

std::vector<std::string> hosts_of_open_mpi_uri(std::string_view uri) {
  std::vector<std::string> hosts;
  while (!uri.empty()) {
    const std::string_view part = uri.substr(0, uri.find(';'));
    uri.remove_prefix(std::min(part.size() + 1, uri.size()));
    const std::size_t scheme = part.find("://");
    const std::size_t colon = part.rfind(':');
    if (scheme == std::string_view::npos || colon <= scheme) continue;
    std::string_view list = part.substr(scheme + 3, colon - scheme - 3);
    if (list.starts_with('[') && list.ends_with(']')) list = list.substr(1, list.size() - 2);
    while (!list.empty()) {
      const std::string_view host = list.substr(0, list.find(','));
      list.remove_prefix(std::min(host.size() + 1, list.size()));
      if (!host.empty()) hosts.emplace_back(host);
    }
  }
  return hosts;
}

std::string first_slurm_host(std::string_view list) {
  std::string host;
  while (!list.empty() && list.front() != ',') {
    if (list.front() == '[') {
      const std::size_t end = list.find(']');
      if (end == std::string_view::npos) return "";
      const std::string_view numbers = list.substr(1, end - 1);
      host += numbers.substr(0, numbers.find_first_of(",-"));
      list.remove_prefix(end + 1);
    } else {
      host += list.front();
      list.remove_prefix(1);
    }
  }
  return host;
}

}  // namespace tutti

// The environment: every setting, NCCL's names for some, the launchers' variables. Whatever is in it, a rank finds out
// who it is or says which variable is wrong, and never shows a secret.
#include <dlfcn.h>
#include <netdb.h>

#include <array>
#include <map>
#include <string>

#include "base/config.h"
#include "bootstrap/find_membership.h"
#include "collectives/algorithm_override.h"
#include "fuzz/input.h"
#include "fuzz/target.h"
#include "schedule/placement.h"
#include "tutti/error.h"

// No input asks a name server.
extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** list) {
  static const auto real = reinterpret_cast<decltype(&::getaddrinfo)>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  addrinfo numeric = *hints;
  numeric.ai_flags |= AI_NUMERICHOST;
  return real(node, service, &numeric, list);
}

namespace tutti::fuzz {
namespace {

constexpr std::array kNames = {
    "TUTTI_DEBUG",
    "TUTTI_RANK",
    "TUTTI_NRANKS",
    "TUTTI_COMM_ID",
    "TUTTI_PORT",
    "TUTTI_SECRET",
    "TUTTI_ALLOW_UNAUTHENTICATED",
    "TUTTI_SOCKET_IFNAME",
    "TUTTI_SOCKET_FAMILY",
    "TUTTI_HOSTID",
    "TUTTI_SHM_DISABLE",
    "TUTTI_SHM_DIR",
    "TUTTI_MEET_TIMEOUT",
    "TUTTI_SILENCE",
    "TUTTI_ALGO",
    "TUTTI_CHUNK_BYTES",
    "TUTTI_CHANNELS",
    "TUTTI_RING_BYTES",
    "NCCL_DEBUG",
    "NCCL_SOCKET_IFNAME",
    "NCCL_SOCKET_FAMILY",
    "NCCL_HOSTID",
    "NCCL_SHM_DISABLE",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "OMPI_MCA_ess_base_jobid",
    "OMPI_MCA_orte_hnp_uri",
    "OMPI_MCA_orte_precondition_transports",
    "PMIX_NAMESPACE",
    "PMI_RANK",
    "PMI_SIZE",
    "PMI_JOBID",
    "PMI_PORT",
    "MPI_LOCALNRANKS",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "SLURM_STEP_NUM_NODES",
    "SLURM_NNODES",
    "SLURM_STEP_NODELIST",
    "SLURM_JOB_NODELIST",
    "SLURM_LAUNCH_NODE_IPADDR",
};

InterfaceRecord at(const char* name, const char* host) {
  InterfaceRecord record;
  record.name = name;
  record.address = SocketAddress::parse(host, 0);
  record.prefix = 24;
  return record;
}

const std::vector<InterfaceRecord>& here() {
  static const std::vector<InterfaceRecord> records = {at("lo", "127.0.0.1"), at("docker0", "172.17.0.1"),
                                                       at("eth0", "10.1.0.1"), at("eth0", "fe80::1")};
  return records;
}

using Variables = std::map<std::string, std::string, std::less<>>;

// Begins secrets that are long enough. No message has it by itself.
constexpr const char* kSecretMark = "s3cr3t*0f*";

// A line a variable: its number in the list, then its value.
Variables variables_of(std::span<const std::byte> bytes) {
  Variables variables;
  std::string_view left = text_of(bytes);
  while (!left.empty()) {
    const std::string_view line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    if (line.empty()) continue;
    // A value cannot hold a zero byte.
    const std::string value(line.substr(1, line.find('\0', 1) - 1));
    const std::string name = kNames[static_cast<unsigned char>(line.front()) % kNames.size()];
    variables[name] = name == "TUTTI_SECRET" && value.size() > 8 ? kSecretMark + value : value;
  }
  return variables;
}

const Placement& placement() {
  static const Placement made({0, 0, 1, 1});
  return made;
}

void understand(const Variables& variables) {
  const Environment environment = [&variables](const char* name) -> const char* {
    const auto found = variables.find(std::string_view(name));
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  const Config config = Config::from_environment(environment);
  require(config.agreement_text().find('\0') == std::string::npos, "what ranks compare is a text");
  if (variables.size() % 4 == 1) static_cast<void>(config.describe());  // the slowest by far
  const InterfaceRules rules = interface_rules(config);
  try {
    require(!choose_interfaces(here(), rules).empty(), "an interface is chosen");
    static_cast<void>(AlgorithmOverride(config.text(Setting::kAlgorithm), placement().layout(0), false));
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kInvalidSetting || error.code() == ErrorCode::kSystem, "a setting is to blame");
  }
  const Membership membership = find_membership(config, environment, here());
  require(membership.ranks >= 1 && membership.rank >= 0 && membership.rank < membership.ranks, "a rank is one of all");
  require(membership.ranks == 1 || !membership.roots.empty(), "there is a place to meet at");
}

}  // namespace

void run(std::span<const std::byte> bytes) {
  const auto variables = variables_of(bytes);
  try {
    understand(variables);
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kInvalidArgument || error.code() == ErrorCode::kInvalidSetting,
            "what cannot be understood is the user's to correct");
    for (const auto& [name, value] : variables) {
      if (name != "TUTTI_SECRET" && value.find(kSecretMark) != std::string::npos) return;
    }
    require(std::string_view(error.what()).find(kSecretMark) == std::string_view::npos, "a secret stays one");
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add = [&all](const std::map<std::string_view, std::string_view>& variables) {
    std::string text;
    for (const auto& [name, value] : variables) {
      const auto* const found = std::ranges::find(kNames, name);
      require(found != kNames.end(), "a seed names what is there");
      text += static_cast<char>(found - kNames.begin());
      text += value;
      text += '\n';
    }
    const auto bytes = bytes_of(text);
    all.emplace_back(bytes.begin(), bytes.end());
  };
  add({{"TUTTI_RANK", "1"},
       {"TUTTI_NRANKS", "4"},
       {"TUTTI_COMM_ID", "10.1.0.1:4000"},
       {"TUTTI_SECRET", "0123456789abcdefghijklmnop"}});
  add({{"RANK", "1"},
       {"WORLD_SIZE", "4"},
       {"LOCAL_WORLD_SIZE", "2"},
       {"MASTER_ADDR", "10.1.0.2"},
       {"MASTER_PORT", "29500"},
       {"TORCHELASTIC_USE_AGENT_STORE", "True"},
       {"TORCHELASTIC_RUN_ID", "x"},
       {"TUTTI_ALLOW_UNAUTHENTICATED", "1"}});
  add({{"OMPI_COMM_WORLD_RANK", "0"},
       {"OMPI_COMM_WORLD_SIZE", "8"},
       {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
       {"OMPI_MCA_orte_hnp_uri", "1968308224.0;tcp://10.1.0.1:54999;tcp6://[fd00::2]:40329"},
       {"OMPI_MCA_orte_precondition_transports", "0123456789abcdef-0123456789abcdef"},
       {"PMIX_NAMESPACE", "7"}});
  add({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"PMI_JOBID", "kvs_1"}, {"MPI_LOCALNRANKS", "2"}});
  add({{"SLURM_PROCID", "1"},
       {"SLURM_NTASKS", "2"},
       {"SLURM_JOB_ID", "9"},
       {"SLURM_STEP_ID", "0"},
       {"SLURM_NNODES", "2"},
       {"SLURM_STEP_NODELIST", "node[03-07]"},
       {"TUTTI_SECRET", "0123456789abcdefghijklmnop"},
       {"TUTTI_PORT", "4000"}});
  add({{"TUTTI_DEBUG", "info"},
       {"TUTTI_SOCKET_IFNAME", "^docker,lo"},
       {"TUTTI_SOCKET_FAMILY", "AF_INET6"},
       {"TUTTI_SILENCE", "2.5"},
       {"TUTTI_MEET_TIMEOUT", "1e3"},
       {"TUTTI_CHUNK_BYTES", "64K"},
       {"TUTTI_CHANNELS", "4"},
       {"TUTTI_RING_BYTES", "2M"},
       {"TUTTI_ALGO", "all_reduce:ring;one_shot"},
       {"TUTTI_HOSTID", "h"},
       {"TUTTI_SHM_DISABLE", "yes"},
       {"NCCL_DEBUG", "TRACE"}});
  return all;
}

}  // namespace tutti::fuzz

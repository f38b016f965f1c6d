#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"

namespace tutti {

// Answers null for a variable that is not set.
using Environment = std::function<const char*(const char*)>;

// The launcher of a process that is told by hand: Launch::launcher.
inline constexpr const char* kByHand = "TUTTI_RANK";

// What a launcher tells its processes through the environment.
struct Launch {
  enum class Hosts { kUnknown, kOne, kSeveral };

  std::string launcher;  // "Open MPI": for messages; "" where nobody has started several ranks
  // Which variables gave the numbers: "RANK=1 and WORLD_SIZE=4, which torchrun sets".
  std::string origin;
  int rank = 0;
  int ranks = 1;
  std::string job;  // the launcher's identity of this job, "" when it has none
  std::string key;  // the launcher's random text of this job, "" when it has none
  Hosts hosts = Hosts::kUnknown;
  // Hosts at one of which rank 0 runs; names or numeric addresses.
  std::vector<std::string> root_hosts;
};

// The launcher whose variables are there (see membership.h); one rank of one where there are none of any. Pure but for
// MPICH, which has no identity of a job: there the process at the other end of PMI_FD stands for it. Throws
// Error(kInvalidSetting) that names the variables: where they are incomplete, and where those of two launchers
// contradict each other.
Launch find_launch(const Config& config, const Environment& environment);

// "1968308224.0;tcp://192.0.2.2:54999;tcp6://[fd00::2]:40329" → 192.0.2.2, fd00::2: Open MPI's contact of mpirun.
std::vector<std::string> hosts_of_open_mpi_uri(std::string_view uri);

// "node[03-07,9],login1" → node03: the first of Slurm's list of hosts; "" for a list that makes no sense.
std::string first_slurm_host(std::string_view list);

}  // namespace tutti

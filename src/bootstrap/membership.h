#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/config.h"
#include "tutti/unique_id.h"

namespace tutti {

// Who this rank is, where the others meet, and what proves that they belong together.
struct Membership {
  int rank = 0;
  int ranks = 1;
  UniqueId id;               // root addresses and the job's secret
  std::string job;           // the launcher's identity of this job: PMIx namespace, Slurm job.step, torchrun run id …
  std::string name;          // Options::name, for messages
  bool root_listens = true;  // rank 0 opens the root's socket itself (false: whoever made the id did)
};

// From TUTTI_RANK/TUTTI_NRANKS/TUTTI_COMM_ID, torchrun-style RANK/WORLD_SIZE/MASTER_ADDR/MASTER_PORT, or what Open MPI,
// MPICH (PMI) and Slurm set. Throws Error(kInvalidSetting) that says which variables were looked for and found.
Membership membership_from_environment(const Config& config);

}  // namespace tutti

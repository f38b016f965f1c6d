#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/config.h"
#include "base/net/address.h"
#include "base/net/key.h"
#include "tutti/unique_id.h"

namespace tutti {

class MeetingWatch;

// Who this rank is, where the others meet, and what proves that they belong together.
struct Membership {
  int rank = 0;
  int ranks = 1;

  // Where rank 0 is reached, best first; names are resolved when they are used. Rank 0 listens on the port of the
  // first; port 0 lets the kernel choose.
  std::vector<HostPort> roots;
  // Proves that a peer belongs to this job; with `nonce` and `job` it gives every key and the communicator's name.
  Key secret;
  Nonce nonce{};
  // The launcher's identity of this job: Open MPI's job id, Slurm's job and step, torchrun's run id and restart …
  std::string job;

  // Not empty: only rank 0 knows nonce, port and perhaps the secret. It listens on loopback, hands them out under this
  // name (see hand_out.h), and the other ranks call complete_membership() before anything else.
  std::string hand_out;
  bool loopback_only = false;
  // Rank 0 opens the root's socket itself (false: whoever made the id did, in this process).
  bool root_listens = true;

  // Reads the text of the unique id again, where it lies in a place in which an earlier run may have left another one;
  // may throw Error. And what that place is called, for messages.
  std::function<std::string()> reread_id;
  std::string id_place;

  std::string name = "world";  // Options::name, for messages
  // Where rank and ranks come from, for messages: Launch::origin; "" where the program says it itself.
  std::string origin;
};

// Where the ranks and their number come from, the first that is complete. Those of two launchers that contradict each
// other are an error, unless one runs inside of the other: torchrun's agent (TORCHELASTIC_RUN_ID) under mpirun or srun,
// and mpirun in a job of Slurm, each with more than one rank. TUTTI_RANK and TUTTI_NRANKS decide. Without any of these
// variables, and with TUTTI_NRANKS=1, the process is a world of one rank.
//   TUTTI_RANK TUTTI_NRANKS              by hand
//   RANK WORLD_SIZE with MASTER_ADDR     torchrun and its kin
//   OMPI_COMM_WORLD_RANK …_SIZE          Open MPI
//   PMI_RANK PMI_SIZE                    MPICH (hydra) and others that speak PMI
//   SLURM_PROCID SLURM_NTASKS            srun
// and, apart from that, where they meet:
//   TUTTI_COMM_ID                        a unique id, or host:port of rank 0
//   MASTER_ADDR and TUTTI_PORT, or MASTER_PORT (plus 1 where TORCHELASTIC_USE_AGENT_STORE says that it is taken)
//   one host, as the launcher says: rank 0's hand-out, named after the launcher's identity of the job
//   (with a secret where base/users.h cannot tell this user from others: loopback, at a port as for several hosts)
//   several hosts: with Open MPI on mpirun's host, with Slurm on the step's first host, at TUTTI_PORT or a port made
//   from the identity of the job; other launchers need TUTTI_COMM_ID or MASTER_ADDR
// The secret: see secret.h. Without any, rank 0 makes one for this host and hands it out.
//
// Throws Error(kInvalidSetting) that says which variables were looked for and found.
Membership membership_from_environment(const Config& config);

// For a unique id. Throws Error(kInvalidArgument) for an empty id or a rank out of range.
Membership membership_from_id(const UniqueId& id, int rank, int ranks);
// Throws Error(kInvalidArgument) where there is no such rank.
void check_rank(int rank, int ranks);

// Reads the id again; whether it is another one, which this membership has from now on. May throw Error.
bool renew_id(Membership& membership);

// Asks rank 0 for what only it knows; does nothing when everything is known. Blocks, at most until the deadline, then
// throws Error(kTimeout); kUnauthorized when another user holds the name. `watch`, if there is one, is told what it
// waits for.
void complete_membership(Membership& membership, Deadline deadline, MeetingWatch* watch = nullptr);

// What rank 0 hands out to complete the others: its addresses, nonce and secret as a unique id's text.
std::string hand_out_text(const Membership& membership, const std::vector<HostPort>& listening);

}  // namespace tutti

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/sync.h"
#include "transport/shm/host_group.h"
#include "tutti/communicator.h"

namespace tutti {

// Who comes last to the collectives of a communicator: which ranks of this host have begun a call, and for whom this
// rank has waited so far. Owned by the Session, outlives its calls; any thread. Never blocks, never allocates.
class Arrivals {
 public:
  Arrivals(const HostGroup& group, int ranks);

  // A rank of this host that has not begun call `sequence`; -1: all have. `next`: how far earlier looks have come, 0 at
  // first. Looked at again and again, the last one found is the last to begin.
  int find_late(std::uint64_t sequence, std::size_t& next) const;

  // A call has waited so long for a rank.
  void count(int rank, std::chrono::nanoseconds waited);
  std::vector<Statistics::Waited> read() const;

 private:
  struct Member {
    int rank;
    const Word* started;
  };
  struct Counter {
    Word calls{0};
    Word ns{0};
  };
  std::vector<Member> others_;  // of this host
  std::unique_ptr<Counter[]> counters_;
  std::size_t ranks_;
};

// How long one call has waited, and for whom. Belongs to the call.
class Wait {
 public:
  // It has not got on for so long. `late`: the rank has not begun the call; otherwise it just has not sent yet. Of
  // those who were late, the last to begin is the cause of the wait.
  void note(int rank, std::chrono::nanoseconds idle, bool late) {
    if (idle < idle_) close();
    if (late || !late_) rank_ = rank;
    late_ = late_ || late;
    idle_ = idle;
  }
  // For whom it has waited longest, and how long; -1: for nobody in particular.
  int rank() const { return current_counts() ? rank_ : main_rank_; }
  std::chrono::nanoseconds time() const {
    return current_counts() ? idle_ + (rank_ == main_rank_ ? main_ : std::chrono::nanoseconds(0)) : main_;
  }

 private:
  bool current_counts() const { return rank_ >= 0 && (rank_ == main_rank_ || idle_ > main_); }
  // It had got on in between: what comes is another wait.
  void close() {
    const auto [rank, time] = std::pair(this->rank(), this->time());
    *this = Wait();
    main_rank_ = rank;
    main_ = time;
  }

  int rank_ = -1;
  bool late_ = false;
  std::chrono::nanoseconds idle_{0};
  int main_rank_ = -1;
  std::chrono::nanoseconds main_{0};
};

}  // namespace tutti

#pragma once

#include <atomic>
#include <barrier>

namespace tutti {

// Where the ranks of a test, in threads of one process, wait for each other without the library.
class Together {
 public:
  explicit Together(int ranks) : all_(ranks, Agree{this}) {}

  void wait() { all_.arrive_and_wait(); }
  // Whether all ranks say so.
  bool agree(bool mine) {
    if (!mine) dissent_ = true;
    all_.arrive_and_wait();
    return agreed_;  // until all come again
  }

 private:
  struct Agree {
    void operator()() noexcept { together->agreed_ = !together->dissent_.exchange(false); }
    Together* together;
  };

  std::atomic<bool> dissent_{false};
  bool agreed_ = false;
  std::barrier<Agree> all_;
};

}  // namespace tutti

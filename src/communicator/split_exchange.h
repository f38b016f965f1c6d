#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "communicator/session.h"
#include "tutti/error.h"

namespace tutti {

// The exchanges of a split, as collectives of the parent: so they come in its order of calls, and whatever can happen
// to a call (death, another call elsewhere, a timeout) ends them as it ends a call. All ranks make the same number of
// them. A rank that cannot go on says so in place of the next one, and then all give up together.
class SplitExchange {
 public:
  explicit SplitExchange(Session& parent) : parent_(parent) {}

  // Everybody gives bytes, at most `most`, which all ranks pass alike; all get everybody's, by rank. Blocks. Throws
  // Error: the parent's failure, or kRemote with the reason of a rank that gave up; over() is true then.
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> mine, std::size_t most);
  // Takes part in the next exchange with the reason why there is no other.
  void give_up(const Error& error);
  bool over() const { return over_; }

 private:
  std::vector<std::byte> exchange(std::span<const std::byte> block);

  Session& parent_;
  bool over_ = false;
};

}  // namespace tutti

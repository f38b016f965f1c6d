#pragma once

#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/handles.h"

namespace tutti {

class MeetingWatch;

// Rank 0's side of the hand-out: an abstract Unix socket that tells a short text to every process of the same user on
// this host, and to nobody else: the kernel vouches for the peer's user id, and where it cannot tell users apart nobody
// gets it. Leaves nothing in the file system. Owned by the root; served by the thread that polls descriptor().
class HandOut {
 public:
  // Throws Error(kSystem), also when the name is taken.
  explicit HandOut(const std::string& name);

  // Readable when serve() has something to do.
  int descriptor() const { return listener_.get(); }
  // Answers those who are waiting now, or as many as a thread with other duties can in one go. Never blocks. False when
  // the process has no descriptor left for the next: trying again at once would be in vain.
  bool serve(std::string_view text);

 private:
  UniqueFd listener_;
  bool told_of_strangers_ = false;
};

// The other ranks' side: asks until an answer comes, and tells `watch`, if there is one, what it waits for. Blocks.
// Throws Error(kTimeout) at the deadline, and Error(kUnauthorized) when the name belongs to a process of another user,
// or of one that may be anybody.
std::string ask_hand_out(const std::string& name, Deadline deadline, MeetingWatch* watch = nullptr);

// The name for a meeting place ("port 29500", a job's identity): it contains the user's id, so that users do not
// collide.
std::string hand_out_name(std::string_view meeting_place);

}  // namespace tutti

#pragma once

#include <cstddef>
#include <cstdint>

#include "executor/issue_order.h"
#include "tutti/types.h"

namespace tutti {

// One send, receive or probe, and how far it got. It may be carried on by any thread, one at a time; what others of its
// peer need of it, they do for it (the second half).
struct Transfer {
  enum class Stage { kIssued, kAnnounced, kGranted, kMoved };

  int peer = 0;  // kAnySource until the sender is known
  int tag = 0;
  DataType type = DataType::kU8;  // of a probe that is done: the message's
  std::size_t count = 0;  // of a receive: elements that there is room for, and those of the message once it is matched
  const std::byte* input = nullptr;  // of a send
  std::byte* output = nullptr;       // of a receive
  bool probes = false;               // a receive that takes nothing: it only finds out what the next one would take

  int looks = 0;            // at a message that is not there yet, before the thread does something else
  bool matched = false;     // a receive has its message
  bool advanced = false;    // it got on since it was carried on the time before
  bool helped = false;      // others got on when it was carried on last
  IssueOrder::Place place;  // until it is announced, or has its message

  // Guarded by the peer's lock from when it is announced, or matched.
  Stage stage = Stage::kIssued;
  std::int8_t early = -1;    // of a send: the place for early messages that its bytes lie in; -1: none
  std::uint64_t number = 0;  // of the sender's announcements to this receiver
  std::size_t moved = 0;     // bytes
  // Number of the message that carried the last of them; 0: they went with the announcement.
  std::uint64_t last_piece = 0;
  Stage known_stage = Stage::kIssued;  // when it was carried on the last time …
  std::size_t known_moved = 0;
  Transfer* newer = nullptr;  // of the sends that wait for their grant
  Transfer* older = nullptr;

  std::size_t bytes() const { return count * element_size(type); }
};

// The sends to one peer that are announced and not granted, oldest first: a list through themselves. Not locked.
class AnnouncedSends {
 public:
  bool empty() const { return oldest_ == nullptr; }

  void enter(Transfer& transfer) {
    transfer.older = newest_;
    transfer.newer = nullptr;
    (newest_ == nullptr ? oldest_ : newest_->newer) = &transfer;
    newest_ = &transfer;
  }

  // REQUIRES: it is in.
  void leave(Transfer& transfer) {
    (transfer.older == nullptr ? oldest_ : transfer.older->newer) = transfer.newer;
    (transfer.newer == nullptr ? newest_ : transfer.newer->older) = transfer.older;
  }

  Transfer* find(std::uint64_t number) const {
    Transfer* transfer = oldest_;
    while (transfer != nullptr && transfer->number != number) transfer = transfer->newer;
    return transfer;
  }

 private:
  Transfer* oldest_ = nullptr;
  Transfer* newest_ = nullptr;
};

}  // namespace tutti

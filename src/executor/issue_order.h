#pragma once

#include <cstdint>

#include "base/sync.h"
#include "tutti/types.h"

namespace tutti {

struct Transfer;

// Sends that are not announced yet, or receives that have no message yet, of one rank, in the order in which they were
// issued: those that compete for the same messages are served in that order, whichever thread looks first. A list
// through the transfers themselves; any thread. Never sleeps, never allocates.
class IssueOrder {
 public:
  // A place in the list; part of every transfer, which stays where it is while it is in.
  struct Place {
    Transfer* next = nullptr;
    const IssueOrder* order = nullptr;  // the list it is in
  };

  // Puts it at the end, once.
  void enter(Transfer& transfer);
  // Takes it out, if it is in.
  void leave(Transfer& transfer);
  // Whether no earlier one waits for messages between this rank and `peer` with this transfer's tag.
  bool is_next(const Transfer& transfer, int peer);

 private:
  SpinLock lock_;  // guards what is below, and the places and peers of the transfers in the list
  Transfer* oldest_ = nullptr;
  Transfer* newest_ = nullptr;
};

}  // namespace tutti

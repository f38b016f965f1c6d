#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tutti/error.h"

namespace tutti {

class Session;

// A communicator that a group opens when it ends. Shared by the group and by the Communicator that was returned, either
// of which may go first.
class Opening {
 public:
  // Blocks until the other ranks have done the same. Throws Error. Null: this rank is no member.
  using Open = std::function<std::shared_ptr<Session>()>;
  // Tells the ranks that it would meet why it does not come. May throw.
  using GiveUp = std::function<void(const Error&)>;

  // parent: whose ranks it is made of, in its order of calls; null: ranks that meet.
  Opening(Open open, GiveUp give_up, Session* parent, std::shared_ptr<Session>& target)
      : open_(std::move(open)), give_up_(std::move(give_up)), parent_(parent), target_(&target) {}

  Session* parent() const { return parent_; }
  // Opens it and keeps what was thrown; in any thread.
  void run() noexcept;
  // It will not be opened: those who wait are told.
  void give_up(const Error& error) noexcept;
  const std::exception_ptr& failure() const { return failure_; }
  // Hands it to the Communicator, if that is still there.
  void deliver();
  // The Communicator goes.
  void forget();

 private:
  Open open_;
  GiveUp give_up_;  // none: the parent's failure tells them
  Session* const parent_;
  std::shared_ptr<Session> session_;
  std::exception_ptr failure_;
  std::mutex mutex_;  // guards what is below
  std::shared_ptr<Session>* target_;
};

// Opens all at the same time, one in the calling thread and each other in a thread of its own, but those of one parent
// one after the other, and delivers those that could be opened. Throws the first failure that is not the consequence of
// another one. When there are not enough threads none is opened, and the others learn of it: parents fail, and ranks
// that wait for this one to meet them are told.
void open_all(const std::vector<std::shared_ptr<Opening>>& openings);

}  // namespace tutti

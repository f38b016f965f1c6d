#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace tutti {

class Session;

// A communicator that a group opens when it ends. Shared by the group and by the Communicator that was returned, either
// of which may go first.
class Opening {
 public:
  // Blocks until the other ranks have done the same. Throws Error. Null: this rank is no member.
  using Open = std::function<std::shared_ptr<Session>()>;

  // parent: whose ranks it is made of, in its order of calls; null: ranks that meet.
  Opening(Open open, Session* parent, std::shared_ptr<Session>& target)
      : open_(std::move(open)), parent_(parent), target_(&target) {}

  Session* parent() const { return parent_; }
  // Opens it and keeps what was thrown; in any thread.
  void run() noexcept;
  const std::exception_ptr& failure() const { return failure_; }
  // Hands it to the Communicator, if that is still there.
  void deliver();
  // The Communicator goes.
  void forget();

 private:
  Open open_;
  Session* const parent_;
  std::shared_ptr<Session> session_;
  std::exception_ptr failure_;
  std::mutex mutex_;  // guards what is below
  std::shared_ptr<Session>* target_;
};

// Opens all at the same time, each in a thread of its own but those of one parent one after the other, and delivers
// those that could be opened. Throws the first failure that is not the consequence of another one. When there are not
// enough threads none is opened, and the parents fail: so the ranks that split them too learn of it.
void open_all(const std::vector<std::shared_ptr<Opening>>& openings);

}  // namespace tutti

#include "communicator/opening.h"

#include <future>
#include <map>
#include <string>
#include <thread>

#include "communicator/session.h"
#include "tutti/error.h"

namespace tutti {
namespace {

bool is_consequence(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error.code() == ErrorCode::kRemote;
  } catch (...) {
    return false;
  }
}

}  // namespace

void Opening::run() noexcept {
  try {
    session_ = open_();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Opening::deliver() {
  const std::lock_guard lock(mutex_);
  if (target_ != nullptr) *target_ = std::move(session_);
  session_.reset();
}

void Opening::forget() {
  const std::lock_guard lock(mutex_);
  target_ = nullptr;
}

void open_all(const std::vector<std::shared_ptr<Opening>>& openings) {
  std::exception_ptr failure;
  std::vector<std::vector<Opening*>> sequences;
  std::map<Session*, std::size_t> by_parent;
  for (const auto& opening : openings) {
    const auto [sequence, added] = by_parent.emplace(opening->parent(), sequences.size());
    if (added || opening->parent() == nullptr) {
      sequences.push_back({opening.get()});
    } else {
      sequences[sequence->second].push_back(opening.get());
    }
  }
  std::vector<std::thread> threads;
  threads.reserve(sequences.size());
  std::promise<bool> start;  // false: not all threads are there
  const std::shared_future<bool> started = start.get_future().share();
  try {
    for (const auto& sequence : sequences) {
      threads.emplace_back([&sequence, started = started] {
        if (!started.get()) return;
        for (Opening* opening : sequence) opening->run();
      });
    }
    start.set_value(true);
  } catch (const std::exception& error) {
    start.set_value(false);
    const Error reason(ErrorCode::kSystem,
                       std::string("cannot start a thread for each communicator that a group makes: ") + error.what() +
                           "; raise the limit of processes (ulimit -u), or make fewer in one group");
    for (const auto& [parent, sequence] : by_parent) {
      if (parent != nullptr) parent->fail(reason);
    }
    failure = std::make_exception_ptr(reason);
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& opening : openings) {
    opening->deliver();
    const std::exception_ptr& other = opening->failure();
    if (other && (!failure || (is_consequence(failure) && !is_consequence(other)))) failure = other;
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace tutti

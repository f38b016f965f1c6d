#include "communicator/opening.h"

#include <future>
#include <map>
#include <thread>

#include "base/only_errors.h"
#include "base/threads.h"
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
    session_ = only_errors(open_);
  } catch (...) {
    failure_ = std::current_exception();
  }
}

void Opening::give_up(const Error& error) noexcept {
  try {
    if (parent_ != nullptr) {
      parent_->fail(error);
    } else if (give_up_) {
      give_up_(error);
    }
  } catch (const std::exception&) {
    // They cannot be told.
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
    const auto open_in_turn = [](const std::vector<Opening*>& sequence) {
      for (Opening* opening : sequence) opening->run();
    };
    for (std::size_t i = 1; i < sequences.size(); ++i) {
      threads.push_back(start_thread("tutti-opening", "for each communicator that a group makes",
                                     [&sequence = sequences[i], started, open_in_turn] {
                                       if (started.get()) open_in_turn(sequence);
                                     }));
    }
    start.set_value(true);
    open_in_turn(sequences.front());
  } catch (const std::exception& error) {
    start.set_value(false);
    const Error reason = as_error(error);
    for (const auto& opening : openings) opening->give_up(reason);
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

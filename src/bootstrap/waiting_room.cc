#include "bootstrap/waiting_room.h"

#include <sys/resource.h>

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

constexpr std::size_t kMost = 1024;
constexpr std::size_t kFewest = 4;
constexpr std::chrono::milliseconds kMoment(50);

std::size_t places() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kFewest;
  return std::clamp(static_cast<std::size_t>(limit.rlim_cur) / 4, kFewest, kMost);
}

}  // namespace

WaitingRoom& WaitingRoom::of_this_thread() {
  static thread_local WaitingRoom room;
  return room;
}

void WaitingRoom::enter(const void* owner, const std::function<std::shared_ptr<Challenge>(std::uint64_t number)>& begin,
                        std::function<void()> on_sent_away) {
  const std::uint64_t number = entered_++;
  waiting_[number] = {owner, begin(number), Clock::now(), std::move(on_sent_away)};
}

void WaitingRoom::leave_all(const void* owner) {
  std::erase_if(waiting_, [owner](const auto& entry) {
    if (entry.second.owner != owner) return false;
    entry.second.challenge->cancel();
    return true;
  });
}

bool WaitingRoom::full() const { return waiting_.size() >= places(); }

bool WaitingRoom::make_room() {
  return !waiting_.empty() && Clock::now() - waiting_.begin()->second.since >= kMoment && clear_one();
}

bool WaitingRoom::clear_one() {
  if (waiting_.empty()) return false;
  const Guest oldest = std::move(waiting_.extract(waiting_.begin()).mapped());
  oldest.challenge->cancel();
  oldest.on_sent_away();
  return true;
}

}  // namespace tutti

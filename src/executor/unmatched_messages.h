#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

#include "transport/line.h"

namespace tutti {

// What the sender of a message says about it before it moves.
struct Announcement {
  std::uint64_t number;
  std::uint64_t count;
  std::int32_t tag;
  std::int32_t type;
};
static_assert(sizeof(Announcement) == 24);

// The messages of one peer that are announced and that no receive has matched yet. The first few have their place here;
// more take memory, so that those of one tag never hide those of another. Not locked.
class UnmatchedMessages {
 public:
  static constexpr std::size_t kPlaces = 64;
  static constexpr std::size_t kMostEnclosed = Line::kPayload - sizeof(Announcement);  // bytes that go with it

  struct Message {
    Announcement announced;
    std::size_t length;      // of what is there of the message, in bytes: all of it or nothing
    const std::byte* early;  // where that lies in the sender's memory until it is granted; null: in `enclosed`
    std::array<std::byte, kMostEnclosed> enclosed;
  };

  std::size_t size() const { return count_ + more_.size(); }

  // The newest of them, to be filled in. May throw std::bad_alloc, and has changed nothing then.
  Message& add(const Announcement& announced) {
    // As long as there are more, later ones go there too: those of a tag stay in order.
    Message& message =
        count_ < kPlaces && more_.empty() ? places_[count_++] : more_.emplace(announced.tag, Message())->second;
    message.announced = announced;
    return message;
  }

  // The oldest with this tag; null: there is none.
  Message* find(int tag) {
    const auto end = places_.begin() + static_cast<std::ptrdiff_t>(count_);
    const auto found =
        std::find_if(places_.begin(), end, [tag](const Message& other) { return other.announced.tag == tag; });
    if (found != end) return &*found;
    if (more_.empty()) return nullptr;
    const auto later = more_.find(tag);
    return later == more_.end() ? nullptr : &more_.lower_bound(tag)->second;
  }

  // REQUIRES: found by find(), and nothing was added or removed since.
  void remove(Message& message) {
    Message* const end = places_.data() + count_;
    if (&message >= places_.data() && &message < end) {
      std::copy(&message + 1, end, &message);
      --count_;
    } else {
      more_.erase(more_.lower_bound(message.announced.tag));
    }
  }

 private:
  std::array<Message, kPlaces> places_;
  std::size_t count_ = 0;
  std::multimap<int, Message> more_;  // by tag, those of one in the order in which they came
};

}  // namespace tutti

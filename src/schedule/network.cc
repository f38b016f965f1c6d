#include "schedule/network.h"

namespace tutti {

Network::Network(int ranks, int window, std::uint64_t ring_units)
    : ranks_(ranks),
      window_(window),
      ring_units_(ring_units),
      lines_(static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)),
      arrivals_(lines_.size() * static_cast<std::size_t>(window)),
      rings_(static_cast<std::size_t>(ranks)) {}

Network::Arrival Network::front(int from, int to) const {
  const std::size_t line = index(from, to);
  return arrivals_[line * static_cast<std::size_t>(window_) + lines_[line].head];
}

std::uint32_t Network::begin_message(int sender, std::uint64_t cost, int readers) {
  std::uint32_t number;
  if (unused_.empty()) {
    number = static_cast<std::uint32_t>(messages_.size());
    messages_.emplace_back();
  } else {
    number = unused_.back();
    unused_.pop_back();
  }
  Message& message = messages_[number];
  message.sender = sender;
  message.cost = cost;
  message.unread = readers;
  if (cost > 0) {
    rings_[sender].used += cost;
    rings_[sender].live.push_back(number);
  }
  return number;
}

void Network::publish(std::uint32_t message, int to, std::uint32_t reader) {
  const std::size_t line = index(messages_[message].sender, to);
  Lines& lines = lines_[line];
  const int place = (lines.head + lines.count) % window_;
  arrivals_[line * static_cast<std::size_t>(window_) + static_cast<std::size_t>(place)] = {message, reader};
  ++lines.count;
}

void Network::consume(int from, int to) {
  const std::uint32_t number = front(from, to).message;
  Lines& lines = lines_[index(from, to)];
  lines.head = static_cast<std::uint16_t>((lines.head + 1) % window_);
  --lines.count;
  Message& message = messages_[number];
  if (--message.unread > 0) return;
  if (message.cost == 0) {
    unused_.push_back(number);
    return;
  }
  Ring& ring = rings_[from];
  while (!ring.live.empty() && messages_[ring.live.front()].unread == 0) {
    ring.used -= messages_[ring.live.front()].cost;
    unused_.push_back(ring.live.front());
    ring.live.pop_front();
  }
}

}  // namespace tutti

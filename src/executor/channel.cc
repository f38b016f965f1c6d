#include "executor/channel.h"

#include <utility>

#include "schedule/peer_sets.h"

namespace tutti {

Channel::Channel(const Layout& layout, int index, std::byte* slots, SlotRing small, SlotRing large,
                 std::function<void()> reserve_large)
    : endpoints_(static_cast<std::size_t>(layout.ranks)),
      rank_(layout.rank),
      slots_(slots),
      rings_{small, large},
      reserve_large_(std::move(reserve_large)) {
  for (Endpoint& endpoint : endpoints_) {
    endpoint.peer = static_cast<std::uint16_t>(&endpoint - endpoints_.data());
    endpoint.channel = static_cast<std::uint8_t>(index);
    endpoint.out_slots = slots;
    singletons_.push_back(&endpoint);
  }
  for (PeerSet set = kFirstNamedSet; set < kNobody; ++set) {
    NamedSet& named = named_[set - kFirstNamedSet];
    for_each_member(layout, set, [&](int member) {
      named.endpoints.push_back(&endpoints_[static_cast<std::size_t>(member)]);
      if (member < layout.rank) ++named.own_place;
    });
  }
}

void Channel::reserve_large_ring() {
  if (!reserve_large_) return;
  reserve_large_();
  reserve_large_ = nullptr;
}

std::byte* Channel::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

}  // namespace tutti

#include "executor/channel.h"

#include <utility>

#include "schedule/peer_sets.h"

namespace tutti {

Channel::Channel(const Layout& layout, int index, std::byte* slots, SlotRing small, SlotRing large,
                 std::function<void()> reserve_large, std::function<void()> reserve_places)
    : endpoints_(static_cast<std::size_t>(layout.ranks)),
      rank_(layout.rank),
      slots_(slots),
      rings_{small, large},
      reserve_large_(std::move(reserve_large)),
      reserve_places_(std::move(reserve_places)) {
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

void Channel::reserve_places() {
  if (!reserve_places_) return;
  reserve_places_();
  reserve_places_ = nullptr;
}

// Near, a reader finds in the writer's cache what was written with ordinary stores. Far, that takes longer than finding
// it in memory. An output that its owner's second-level cache still holds is better written past the caches even near:
// every line of it would have to be taken back. (The large ring is about twice as long as that cache.)
void Channel::set_distance(bool far) {
  far_ = far;
  slot_stores_ = far ? StoreKind::kStreaming : StoreKind::kOrdinary;
  const std::size_t held = rings_[1].size() / 4;
  for (std::size_t width = 1; width < target_stores_.size(); ++width) {
    const bool streams = far || std::size_t{1} << (width - 1) <= held;
    target_stores_[width] = StoreChoice(streams ? StoreKind::kStreaming : StoreKind::kOrdinary);
  }
}

std::byte* Channel::scratch(std::size_t bytes) {
  if (bytes > scratch_bytes_) {
    scratch_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    scratch_bytes_ = bytes;
  }
  return scratch_.get();
}

}  // namespace tutti

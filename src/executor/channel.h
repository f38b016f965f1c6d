#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "executor/store_choice.h"
#include "schedule/layout.h"
#include "schedule/step.h"
#include "transport/endpoint.h"
#include "transport/slot_ring.h"

namespace tutti {

// The members of a peer set as this rank meets them: their endpoints in rank order, and the place that the own
// contribution takes among them.
struct Peers {
  std::span<Endpoint* const> endpoints;
  std::uint32_t own_place = 0;
};

// What the executor works on for one channel: an endpoint to every other rank, the rank's slot rings, scratch memory.
// Owned by the communicator; used by one thread at a time.
class Channel {
 public:
  // slots: the memory in which this rank's slots lie. small, large: its rings for short and for long messages.
  // reserve_large, reserve_places: take memory for the large ring, and for the places of all endpoints; each is called
  // once, before the first use; may throw Error.
  Channel(const Layout& layout, int index, std::byte* slots, SlotRing small, SlotRing large,
          std::function<void()> reserve_large = {}, std::function<void()> reserve_places = {});
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  Endpoint& endpoint(int peer) { return endpoints_[static_cast<std::size_t>(peer)]; }
  std::span<Endpoint> endpoints() { return endpoints_; }
  Peers peers(PeerSet set) const {
    if (set >= kFirstNamedSet) {
      const NamedSet& named = named_[set - kFirstNamedSet];
      return {named.endpoints, named.own_place};
    }
    return {std::span(&singletons_[set], 1), set < rank_ ? 1u : 0u};
  }

  std::byte* slots() const { return slots_; }
  // The ring for short messages and the one for long ones.
  std::array<SlotRing, 2>& rings() { return rings_; }
  void reserve_large_ring();
  // Before the places of its endpoints are used.
  void reserve_places();
  // Whether some peer of this host is far: it changes how memory that peers read is written.
  void set_distance(bool far);
  // What this rank has of the last caches of its host, where its peers are near and where some are far; 0: unknown.
  void set_cache_shares(std::size_t near, std::size_t far) { cache_shares_ = {near, far}; }
  bool exceeds_cache(std::size_t bytes) const {
    const std::size_t share = cache_shares_[far_ ? 1 : 0];
    return share > 0 && bytes > share;
  }
  // How the slots of the large ring are written.
  StoreKind slot_stores() const { return slot_stores_; }
  // How the outputs of peers are written, by calls with outputs of this length.
  StoreChoice& target_stores(std::size_t bytes) { return target_stores_[std::bit_width(bytes)]; }

  // At least this much memory for scratch chunks; allocates only when it grows.
  std::byte* scratch(std::size_t bytes);

 private:
  std::vector<Endpoint> endpoints_;    // by rank; the own one is unused
  std::vector<Endpoint*> singletons_;  // &endpoints_[r]
  struct NamedSet {
    std::vector<Endpoint*> endpoints;
    std::uint32_t own_place = 0;
  };
  std::array<NamedSet, kNobody - kFirstNamedSet> named_;
  int rank_;
  std::byte* slots_;
  std::array<SlotRing, 2> rings_;
  std::function<void()> reserve_large_;        // empty once called
  std::function<void()> reserve_places_;       // the same
  std::array<std::size_t, 2> cache_shares_{};  // near, far
  bool far_ = false;
  StoreKind slot_stores_ = StoreKind::kOrdinary;
  std::array<StoreChoice, 65> target_stores_;  // by bit_width
  std::unique_ptr<std::byte[]> scratch_;
  std::size_t scratch_bytes_ = 0;
};

}  // namespace tutti

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "executor/call.h"
#include "executor/channel.h"
#include "reduce/store_kind.h"
#include "schedule/step.h"

namespace tutti {

// One step of one call, from waiting to done: looks whether all its messages are there and all it sends has room,
// computes the value once, stores and publishes it. Lives on the stack of HostExecutor::advance; if it is blocked,
// nothing has happened yet and the step is tried again from the start.
class StepExecution {
 public:
  enum class Outcome { kDone, kBlocked, kMismatch, kBadMessage };

  // looks: how often it looks again for a message that is not there, before it is blocked.
  StepExecution(Call& call, Channel& channel, Call::Cursor& cursor, const Step& step, int looks)
      : call_(call), channel_(channel), cursor_(cursor), step_(step), looks_(looks), signature_(call.signature) {}

  Outcome run();
  // The peer that is waited for or has sent something wrong; -1 when the step waits for room.
  int peer() const { return peer_; }
  // Of the message that does not belong to this call.
  std::uint64_t peer_signature() const { return peer_signature_; }

 private:
  static constexpr std::size_t kNoSlot = ~std::size_t{0};

  Outcome check_messages();
  const Line* await(const Endpoint& endpoint) const;
  bool withdrawn();
  bool resolve(Endpoint& endpoint) const;
  void post_destination(Endpoint& endpoint);
  bool find_room();
  StoreChoice& target_stores() const { return channel_.target_stores(call_.output_bytes); }
  bool writes_unasked() const;
  void look_for_output(Endpoint& endpoint);
  bool maps_value() const;
  void find_place();
  void set_place(Space space, std::uint32_t chunk);
  std::uint64_t place_in_buffer() const { return static_cast<std::uint64_t>(place_ - buffer_); }
  Way way_to(Endpoint& endpoint) const;
  std::byte* target_at(const Endpoint& endpoint) const;
  void write_notes(Endpoint& endpoint, Way way) const;
  void compute();
  void write_targets();
  void compute_chunk(std::uint32_t index, std::size_t elements, std::size_t message_offset, std::byte* sent);
  void publish_value();

  std::byte* address(Space space, std::uint32_t chunk) const;
  std::size_t elements(std::uint32_t index) const { return call_.binding.elements(step_, index, cursor_.round); }

  Call& call_;
  Channel& channel_;
  Call::Cursor& cursor_;
  const Step& step_;
  const int looks_;
  Peers from_;
  Peers to_;
  std::uint64_t signature_;                      // of the messages
  std::size_t first_elements_ = 0;               // of the value's first chunk
  std::size_t bytes_ = 0;                        // of the value
  std::size_t part_offset_ = 0;                  // where the value begins in each received message
  std::size_t slot_ = kNoSlot;                   // offset of the slot that the value is written to …
  StoreKind own_stores_ = StoreKind::kOrdinary;  // how this rank's output is written
  StoreKind stores_ = StoreKind::kOrdinary;      // … and how
  // Where the value lies, or will, for peers that may read it there; null when they may not.
  const std::byte* place_ = nullptr;
  const std::byte* buffer_ = nullptr;             // the caller's buffer that place_ is in …
  const SharedHeap::Location* shared_ = nullptr;  // … and where that lies in the shared heap, if it does
  Endpoint::Sent sent_;
  bool reads_in_place_ = false;   // out of a peer's buffer
  bool writes_in_place_ = false;  // into peers' outputs …
  std::byte* target_ = nullptr;   // … the first of which is written together with the own one, when there is no slot
  int peer_ = -1;
  std::uint64_t peer_signature_ = 0;
  alignas(64) std::array<std::byte, Line::kPayload> inline_value_;
};

}  // namespace tutti

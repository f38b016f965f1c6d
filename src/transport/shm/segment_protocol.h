#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/handles.h"
#include "base/net/key.h"

namespace tutti {

// How a segment's descriptor is passed over a connected local socket. Both sides prove, over a fresh challenge of the
// other, that they know the key:
//
//   caller                                       leader
//                                            ◀─  nonce
//   rank, nonce, proof over the leader's     ─▶
//                                            ◀─  proof over the caller's, with the descriptor
using SegmentChallenge = std::array<std::byte, 32>;
using SegmentProof = std::array<std::byte, Key::kBytes>;
struct SegmentRequest {
  std::int32_t rank;
  SegmentChallenge challenge;
  SegmentProof proof;
};
static_assert(sizeof(SegmentRequest) == 68);

SegmentProof prove_request(std::span<const std::byte> key, int leader, int rank, const SegmentChallenge& challenge);
SegmentProof prove_answer(std::span<const std::byte> key, int leader, int rank, const SegmentChallenge& challenge);

// The leader's side of one conversation, over a non-blocking socket; never waits.
class SegmentGiver {
 public:
  explicit SegmentGiver(UniqueFd socket);
  int socket() const { return socket_.get(); }

  // Sends the challenge; false when the caller is gone already.
  bool greet() const;
  // Takes what the caller said, and hands over the descriptor when that is a proof. Whether it is done with the caller.
  bool answer(std::span<const std::byte> key, int leader, int segment);

 private:
  UniqueFd socket_;
  SegmentChallenge challenge_;
  SegmentRequest request_{};
  std::size_t received_ = 0;
};

// Blocks until a socket can be read; false: it is not worth waiting any more.
using WaitReadable = std::function<bool(int socket)>;

// The caller's side. Blocks as long as `wait` and the socket's limits let it. An empty handle: refused, given up, or
// what came was no proof.
UniqueFd receive_segment(int socket, std::span<const std::byte> key, int leader, int rank,
                         const WaitReadable& wait = {});

}  // namespace tutti

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/net/key.h"

namespace tutti {

// What travels on an authenticated connection: a 32-bit length of the payload, a type, the payload, and a tag by which
// the receiver knows that the sender of the challenge sent it, next in turn (see connection.h).
enum class FrameType : std::uint8_t {
  kHeartbeat,  // empty
  // between a rank and the root, while ranks meet
  kIntroduction,  // Introduction
  kAssignment,    // Assignment
  kJoined,        // empty: this rank is connected to its parent
  kReady,         // empty: everybody below is connected; also to the parent
  kMet,           // empty: this rank needs the root no more
  kRefused,       // Poison: the meeting failed; from a rank: it cannot go on
  // between neighbours in the tree
  kState,       // TreeNews: the last of all that the sender knows, told to a new neighbour
  kTable,       // RankTable
  kGatherUp,    // GatherParts of everybody below
  kGatherDown,  // GatherParts of all
  kGoodbye,     // TreeNews: who has left
  kRelease,     // empty: the sender has found another parent
  kDeath,       // Death
  // of one communicator on the tree
  kPoison,   // ScopePoison
  kCompare,  // Comparison
  // between survivors of a communicator
  kSurvivor,  // SurvivorMessage
  // of one communicator on the tree: what its ranks do
  kAsk,     // SurveyQuestion
  kAnswer,  // SurveyAnswer
  kReport,  // SurveyReport
  // between a rank and the root, while ranks meet
  kWaiting,  // empty: whom does the root wait for? The answer: text
  // of one communicator on the tree
  kCallBack,  // CallBack
};
inline constexpr std::uint8_t kFrameTypes = 22;
inline constexpr std::size_t kFrameHeaderBytes = 5;
inline constexpr std::size_t kFrameTagBytes = 16;

// A frame as it is sent, header included.
// Shared: a broadcast queues one frame on several connections, and the last to write it frees it.
using Frame = std::shared_ptr<const std::vector<std::byte>>;
Frame make_frame(FrameType type, std::span<const std::byte> payload = {});

// What follows frame number `number`, counted from 0 each way, under the sender's key of the connection.
using FrameTag = std::array<std::byte, kFrameTagBytes>;
FrameTag frame_tag(const Key& key, std::uint64_t number, std::span<const std::byte> frame);

}  // namespace tutti

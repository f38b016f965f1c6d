#pragma once

#include <cstdint>

#include "base/rank_limit.h"

// Shared with device code: no containers, no exceptions, no host-only headers.
#if defined(__CUDACC__)
#define TUTTI_HOST_DEVICE __host__ __device__
#else
#define TUTTI_HOST_DEVICE
#endif

namespace tutti {

// Where a chunk lies. Scratch belongs to the communicator, per channel.
enum class Space : std::uint8_t { kNone, kInput, kOutput, kScratch };

// What a step does with its value:
//   value = [reduce over] (local source?) and (one message of each peer in `from`)
//   store it at the destination, if there is one; send it to each peer in `to`, if there is any
enum class StepKind : std::uint8_t {
  kCopy,        // source -> destination
  kSend,        // source -> peers
  kRecv,        // message -> destination
  kForward,     // message -> [destination] and peers
  kReduce,      // [source] and messages, combined -> destination
  kReduceSend,  // [source] and messages, combined -> [destination] and peers
};

// A peer set: a rank by itself, or one of the named sets that the layout knows. The members of a set are in rank
// order; in a reduction the own contribution takes its own rank's place among them. A named set may be empty: then a
// reduction is a copy of its source, and nothing is sent.
using PeerSet = std::uint16_t;
inline constexpr PeerSet kNobody = 0xFFFF;
inline constexpr PeerSet kEveryone = 0xFFFE;        // all other ranks
inline constexpr PeerSet kHostPeers = 0xFFFD;       // all other ranks on this rank's host
inline constexpr PeerSet kRailPeers = 0xFFFC;       // the ranks with this rank's place on every other host
inline constexpr PeerSet kTreeChildren = 0xFFFB;    // this rank's children in the first tree of the double binary tree
inline constexpr PeerSet kMirrorChildren = 0xFFFA;  // its children in the second tree
inline constexpr PeerSet kGroupPeers = 0xFFF9;      // all other ranks of this rank's group on its host
inline constexpr PeerSet kGroupRailPeers = 0xFFF8;  // the ranks with this rank's place in every other group
inline constexpr PeerSet kFirstNamedSet = 0xFFF8;
static_assert(kMaxRanks <= kFirstNamedSet, "a rank is no named set");
// One reduction combines at most so many operands, the own source included.
inline constexpr int kMaxOperands = 1024;

// Ways in which a step's value may be read where it lies, in the sender's memory, instead of from a slot. They are
// claims of the generator; the verifier proves each of them (see verifier.h). The value is the source of kSend, and
// what kForward and kReduceSend store at their destination. A kSend with `first` or `last` is readable only in calls
// whose operation has no such map.
enum Readable : std::uint8_t {
  kReadableNever = 0,
  kReadableOutOfPlace = 1,  // when the sender's call is not in place
  kReadableInPlace = 2,     // when it is
  kReadableAlways = 3,
};

// Ways in which a step's value may be written where it belongs, in the receivers' memory, instead of into a slot: at
// the chunk of their output that is the step's destination. Claims that the verifier proves, too. kForward and
// kReduceSend store the value there themselves; a kSend without maps only names the chunk, without a space.
enum Writable : std::uint8_t {
  kWritableNever = 0,
  kWritableOutOfPlace = 1,  // when the receiver's call is not in place
  kWritableInPlace = 2,     // when it is
  kWritableAlways = 3,
};

// One step of one rank's list. Chunks are counted, never bytes: element type, sizes and buffers are bound when the
// collective is called, and long messages repeat the list (see binding.h).
struct Step {
  StepKind kind : 4 = StepKind::kCopy;
  std::uint8_t readable : 2 = kReadableNever;
  std::uint8_t first : 1 = 0;  // apply the op's input map (pre-multiplication) to the source, rounded to its type
  std::uint8_t last : 1 = 0;   // apply its output map (average) to the value, before it is rounded
  Space source_space : 2 = Space::kNone;
  Space destination_space : 2 = Space::kNone;
  std::uint8_t writable : 2 = kWritableNever;
  std::uint16_t source = 0;       // first chunk of the source
  std::uint16_t destination = 0;  // first chunk of the destination
  std::uint16_t count = 1;        // chunks of the value; 0: an empty message that only orders
  std::uint16_t shape = 0;        // the value is as long as the chunks shape … shape+count-1 of the data
  std::uint16_t part = 0;         // first chunk taken out of each received message; at most shape
  PeerSet from = kNobody;
  PeerSet to = kNobody;
};
static_assert(sizeof(Step) == 16);

TUTTI_HOST_DEVICE constexpr bool receives(const Step& step) { return step.from != kNobody; }
TUTTI_HOST_DEVICE constexpr bool sends(const Step& step) { return step.to != kNobody; }
TUTTI_HOST_DEVICE constexpr bool stores(const Step& step) { return step.destination_space != Space::kNone; }

}  // namespace tutti

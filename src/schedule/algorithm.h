#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "schedule/layout.h"
#include "schedule/step.h"

namespace tutti {

enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kBroadcast,
  kReduce,
  kGather,
  kScatter,
  kAllToAll,
  kBarrier,
  // The vector forms: as the three above, with blocks of different sizes (see block_table.h).
  kAllGatherV,
  kReduceScatterV,
  kAllToAllV,
};
inline constexpr int kCollectives = 12;
const char* name(Collective collective);  // "all_reduce" …
constexpr bool is_vector(Collective c) { return c >= Collective::kAllGatherV; }
// What moves the same data in blocks of one size.
constexpr Collective even_form(Collective c) {
  switch (c) {
    case Collective::kAllGatherV:
      return Collective::kAllGather;
    case Collective::kReduceScatterV:
      return Collective::kReduceScatter;
    case Collective::kAllToAllV:
      return Collective::kAllToAll;
    default:
      return c;
  }
}
constexpr bool is_rooted(Collective c) {
  return c == Collective::kBroadcast || c == Collective::kReduce || c == Collective::kGather ||
         c == Collective::kScatter;
}
constexpr bool reduces(Collective c) {
  return c == Collective::kAllReduce || c == Collective::kReduceScatter || c == Collective::kReduce ||
         c == Collective::kReduceScatterV;
}

// How the data of a call is cut into chunks.
//
// A buffer holds blocks of `count` elements (count as the caller passes it): one block in all_reduce, broadcast and
// reduce; one block in the input and `ranks` blocks in the output of all_gather and gather; the reverse in
// reduce_scatter and scatter; `ranks` blocks on both sides of all_to_all. Every block has `chunks` chunks; chunk c of
// a space is chunk c % chunks of block c / chunks. A Step's `shape` counts in the same way and only its remainder
// matters, because all blocks have one size. In the vector forms blocks have sizes of their own and one chunk each;
// there a Step's value is as long as the block of the input or the output that it names.
struct Chunking {
  int chunks = 1;          // per block
  int scratch_chunks = 0;  // per channel
  // Chunks in unread slots that a rank must be able to have; the verifier allows no more. Messages do not wrap, so the
  // ring itself must be longer by a largest message (twice slot_chunks is always enough).
  int slot_chunks = 1;
  // Unacknowledged messages that a connection must allow: 2 where both ends wait for each other in steps that receive
  // and send, because such a step consumes its messages only when it can publish. Every executor has at least 2.
  int window = 1;
  // Chunks of rounds that flow may be so many times as long as those of which one end begins when the other is through
  // with one: for schedules in which both ends work from the start.
  int flow = 1;
};

// What an algorithm moves and waits for on the slowest rank, in the terms of the cost model (collectives/cost_model.h).
// What is counted in bytes is proportional to the bytes of the call, the rest does not depend on them.
struct Cost {
  struct Link {
    double hops = 0;      // message latencies one after the other
    double messages = 0;  // that the busiest rank sends and takes, per round
    double bytes = 0;     // through the busiest end of that link class
    double fill = 0;      // messages of one chunk that must pass before these bytes begin to flow
  };
  Link local;                // between ranks of one host; an end is a rank
  Link across;               // between groups of one host; an end is a rank. Filled in by the selector (see cost_of())
  Link remote;               // between hosts; an end is a host, whose ranks share the wire
  double steps = 0;          // steps executed by the busiest rank, per round
  double copied_bytes = 0;   // bytes copied on the busiest rank before others can go on: into slots, in scratch
  double reduced_bytes = 0;  // operand bytes read by reductions on the busiest rank
  bool flows = false;        // rounds follow each other without waiting for answers: hops are paid once, not per round
};

// One way to perform one collective: a pure function from (layout, root, index) to steps, random access, so that a
// list can be stored, streamed or run on a device, and any of it can be resumed from its index alone.
struct Algorithm {
  std::string_view name;  // "ring", "two_shot" …
  Collective collective;
  // All elements are combined by the reproducible tree (docs/design.md), however the call is cut.
  bool reproducible = false;
  // Every element is combined in one step out of what all ranks contribute: no sum of some of them is ever stored.
  bool at_once = false;
  bool (*applies)(const Layout&) = nullptr;
  Chunking (*chunking)(const Layout&) = nullptr;
  int (*steps)(const Layout&, int root) = nullptr;
  Step (*step)(const Layout&, int root, int index) = nullptr;
  // bytes: of one block times the blocks of the larger side, i.e. the size by which the perf binaries report.
  Cost (*cost)(const Layout&, double bytes) = nullptr;
  std::string_view condition = {};  // what applies() asks for, in words: "several hosts"
};

}  // namespace tutti

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "executor/operation_log.h"
#include "executor/plan.h"
#include "executor/signature.h"
#include "reduce/ready_reduction.h"
#include "reduce/reduce.h"
#include "schedule/binding.h"
#include "transport/endpoint.h"
#include "transport/shm/shared_heap.h"

namespace tutti {

// One call of one collective on one rank: what it is, and how far it got. Its position lies here and not on a stack,
// so any thread may carry it on between two steps, one at a time. Fixed size; reused, never allocated per call.
struct Call {
  const Plan* plan = nullptr;
  Binding binding;
  const BlockTable* blocks = nullptr;  // of a vector form; belongs to whoever issued the call
  Reduction reduction{};
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
  std::size_t element_bytes = 0;
  CallShape shape;
  OperationLog::Entry* entry = nullptr;  // null: the executor enters it
  std::uint64_t sequence = 0;
  std::uint64_t signature = 0;
  bool counts_signed = false;  // messages carry with_count(signature, count of their block)
  int root = 0;
  int channels = 1;
  std::uint8_t ring = 0;  // which of a channel's rings its messages take slots from
  bool in_place = false;
  bool straight_line = false;  // progress() may try run_straight_line() first
  bool repeatable = false;     // Executor::repeat() may make calls of this shape of it, with any buffers

  // Of a call that may go in a straight line: looked up once, because looking up would take a good part of it.
  struct Straight {
    std::span<const Step> steps;  // the plan's
    std::size_t elements = 0;     // of each value
    std::size_t bytes = 0;
    ReadyReduction reduction;
  };
  Straight straight;

  // Where a channel stands. Channel c executes rounds c, c + channels, c + 2·channels …
  struct Cursor {
    std::size_t round;
    int step;
    std::uint32_t arrived;  // of the current step's messages, so many are known to be there
    bool posted;            // a transport was told where the current step's message belongs
  };
  std::array<Cursor, kMaxChannels> cursors;  // set when the call starts, for the channels that it uses
  // Where the buffers lie in the process's shared heap, so that peers on the host can read them in place.
  std::optional<SharedHeap::Location> shared_input;
  std::optional<SharedHeap::Location> shared_output;
  std::size_t shortest_read = 0;  // bytes from which peers of this host read a value where it lies, or have it written
  std::size_t output_bytes = 0;   // of a call that lends its output, or could
  std::size_t larger_buffer_bytes = 0;  // of its input and output, on the rank that has most
  std::size_t longest_chunk = 0;        // bytes
  bool streams_output = false;          // its buffers are larger than the caches: what is stored there is not kept
  int looks_left = 0;                   // for outputs of peers who have not begun, before values are sent without them
  bool lends_output = false;            // peers are told where the output lies, and may write there …
  SharedHeap::Location lent;            // … to these whole pages of it: nothing else lies on them
  bool read_in_place = false;           // some message is read out of the caller's buffer: wait for its acknowledgement

  // The signature of messages that come from a peer.
  std::uint64_t signature_from(int peer) const {
    return counts_signed ? with_count(signature, blocks->output.counts[peer]) : signature;
  }
};

enum class Progress { kDone, kAgain, kFailed };

}  // namespace tutti

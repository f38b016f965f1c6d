#pragma once

#include "schedule/algorithm.h"

// Predicts how long a call takes from its algorithm's Cost:
//
//   time = hops·(latency + turn)·passes + rounds·(messages·handling + steps·overhead) + (fill·chunk + bytes) /
//   bandwidth
//          + copied bytes / copy rate + reduced bytes / reduction rate
//
// summed over link classes. passes is 1 where rounds flow, else the rounds of one channel: each waits for its hops. On
// a host, messages that do not fit into a line count twice: the reader finds the line, then fetches the slot.
namespace tutti {

struct LinkParameters {
  double latency_ns;    // of one message, from the sender's store to the reader's load
  double message_ns;    // a rank's own time for sending or taking one
  double bytes_per_ns;  // through one end
};

// First values: two kinds of cloud machines with private buffers that are touched between calls, ranks near each
// other. Shared memory: a hop between cores takes 48-68 ns; local rates were fitted to a two_shot exchange of two ranks
// (32 KiB 1.8 µs, 1 MiB 50 µs) and to the size where two_shot overtakes one_shot (5 KiB at 4 ranks, 1.4 KiB at 8).
// TCP: 5 µs + 0.5 ns a byte on loopback, with half a microsecond of system calls a message. Steps: 1.4 ns to interpret.
struct CostParameters {
  LinkParameters local{60, 15, 40};
  LinkParameters remote{5000, 500, 2};
  double step_ns = 1.4;
  double copied_bytes_per_ns = 80;
  double reduced_bytes_per_ns = 80;
  LinkParameters across{230, 15, 20};  // between groups of one host; where there are none nothing is counted there
  double turn_ns = 0;                  // see turn_ns()
};

// What a hop on a host takes where so many ranks take turns on a hardware thread: before a rank has what it waits for,
// each of them has come to run. 1: nothing, each has its own. Two virtual cores: a switch takes 1.1 µs; one_shot
// overtakes two_shot at 80 KiB with 4 ranks and 50 KiB with 8.
double turn_ns(int ranks_per_thread);

// How a call is cut.
struct Cut {
  double rounds = 1;
  double channels = 1;
  double chunk_bytes = 0;  // of the first chunk
};

// The terms of a prediction, in nanoseconds.
struct Prediction {
  double latency = 0;
  double handling = 0;  // of messages and steps
  double local_bytes = 0;
  double across_bytes = 0;
  double remote_bytes = 0;
  double copies = 0;
  double reductions = 0;

  double total() const { return latency + handling + local_bytes + across_bytes + remote_bytes + copies + reductions; }
};

// What an algorithm costs on a layout. Where one host has groups, what passes between them is counted as `across`.
Cost cost_of(const Algorithm& algorithm, const Layout& layout, double bytes);

Prediction predict(const Cost& cost, const Cut& cut, const CostParameters& parameters);

}  // namespace tutti

#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "schedule/verifier.h"

namespace tutti {

// A chunk of one of the three spaces.
struct At {
  Space space = Space::kNone;
  int chunk = 0;
};
inline At in(int chunk) { return {Space::kInput, chunk}; }
inline At out(int chunk) { return {Space::kOutput, chunk}; }
inline At temp(int chunk) { return {Space::kScratch, chunk}; }

inline Step make(StepKind kind, At source, int from, At destination, int to, int count = 1) {
  Step step;
  step.kind = kind;
  step.source_space = source.space;
  step.source = static_cast<std::uint16_t>(source.chunk);
  step.destination_space = destination.space;
  step.destination = static_cast<std::uint16_t>(destination.chunk);
  step.from = static_cast<PeerSet>(from);
  step.to = static_cast<PeerSet>(to);
  step.count = static_cast<std::uint16_t>(count);
  step.shape = source.space == Space::kInput || source.space == Space::kOutput ? step.source : step.destination;
  return step;
}
inline Step copy(At source, At destination, int count = 1) {
  return make(StepKind::kCopy, source, kNobody, destination, kNobody, count);
}
inline Step send(At source, int to, int count = 1) { return make(StepKind::kSend, source, kNobody, {}, to, count); }
inline Step recv(int from, At destination, int count = 1) {
  return make(StepKind::kRecv, {}, from, destination, kNobody, count);
}
inline Step forward(int from, At destination, int to) { return make(StepKind::kForward, {}, from, destination, to); }
inline Step reduce(At source, int from, At destination) {
  return make(StepKind::kReduce, source, from, destination, kNobody);
}
inline Step reduce_send(At source, int from, At destination, int to) {
  return make(StepKind::kReduceSend, source, from, destination, to);
}
inline Step first(Step step) {
  step.first = 1;
  return step;
}
inline Step last(Step step) {
  step.last = 1;
  return step;
}
inline Step readable(Step step, Readable when) {
  step.readable = when & 3;
  return step;
}
inline Step writable(Step step, Writable when) {
  step.writable = when & 3;
  return step;
}
inline Step shaped(Step step, int shape) {
  step.shape = static_cast<std::uint16_t>(shape);
  return step;
}
inline Step part(Step step, int chunk) {
  step.part = static_cast<std::uint16_t>(chunk);
  return step;
}

using Lists = std::vector<std::vector<Step>>;  // [rank][step]

// Makes an Algorithm of lists that a test wrote or tampered with. An Algorithm holds plain functions, so the lists of
// the calls of a sequence lie in numbered places; a place holds one schedule at a time, in one thread.
template <int kPlace = 0>
class Tiny {
 public:
  static Algorithm algorithm(Collective collective, Lists lists, Chunking chunking = {}, bool reproducible = false) {
    lists_ = std::move(lists);
    chunking_ = chunking;
    return {"tiny",
            collective,
            reproducible,
            false,
            [](const Layout&) { return true; },
            [](const Layout&) { return chunking_; },
            [](const Layout& layout, int) { return static_cast<int>(lists_[layout.rank].size()); },
            [](const Layout& layout, int, int index) { return lists_[layout.rank][index]; },
            nullptr};
  }

 private:
  static inline Lists lists_;
  static inline Chunking chunking_;
};

inline Verdict verify_tiny(Collective collective, const Lists& lists, Chunking chunking = {}, bool reproducible = false,
                           int root = 0) {
  const Placement placement(static_cast<int>(lists.size()));
  return verify(Tiny<>::algorithm(collective, lists, chunking, reproducible), placement, root);
}

// Every rank gives its input to everyone and adds all of them up.
inline Lists one_shot(int ranks) {
  Lists lists(static_cast<std::size_t>(ranks));
  for (std::vector<Step>& list : lists) {
    list = {first(send(in(0), kEveryone)), last(first(reduce(in(0), kEveryone, out(0))))};
  }
  return lists;
}

// The textbook ring all-reduce: one chunk a rank goes round twice. Needs ring_chunking().
inline Lists ring(int ranks) {
  Lists lists(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    const int next = (rank + 1) % ranks;
    const int before = (rank + ranks - 1) % ranks;
    const auto chunk = [&](int back) { return (rank - back + 2 * ranks) % ranks; };
    lists[rank].push_back(first(send(in(chunk(0)), next)));
    for (int i = 1; i < ranks - 1; ++i) {
      lists[rank].push_back(first(reduce_send(in(chunk(i)), before, {}, next)));
    }
    const int own = chunk(ranks - 1);
    lists[rank].push_back(last(first(reduce_send(in(own), before, out(own), next))));
    for (int i = 0; i < ranks - 2; ++i) lists[rank].push_back(forward(before, out(chunk(i)), next));
    lists[rank].push_back(recv(before, out(chunk(ranks - 2))));
  }
  return lists;
}
inline Chunking ring_chunking(int ranks) { return {ranks, 0, 2, 2}; }

}  // namespace tutti

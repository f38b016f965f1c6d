#pragma once

#include <cstdint>

#include "schedule/algorithm.h"

namespace tutti {

// Which data a collective moves: every chunk of every input has a number, and every chunk of every output says which
// one it must end with, and from whom. Numbers are congruent to the chunk's place in its block.
class DataMap {
 public:
  static constexpr int kAllRanks = -1;

  DataMap(Collective collective, int ranks, int chunks, int root)
      : collective_(even_form(collective)), ranks_(ranks), chunks_(chunks), root_(root) {}

  int chunks() const { return chunks_; }

  // Chunks of a rank's input and output.
  int input_chunks(int rank) const { return input_blocks(rank) * chunks_; }
  int output_chunks(int rank) const { return output_blocks(rank) * chunks_; }

  // Where, in a call in place, the first chunk of one space lies in the other: input chunk i is output chunk
  // i + input_in_output, or output chunk i is input chunk i + output_in_input.
  struct Overlap {
    bool overlaps = false;
    int input_in_output = 0;
    int output_in_input = 0;
  };
  Overlap in_place(int rank) const {
    if (input_chunks(rank) == 0 || output_chunks(rank) == 0) return {};
    switch (collective_) {
      case Collective::kAllGather:
      case Collective::kGather:
        return {true, rank * chunks_, 0};
      case Collective::kReduceScatter:
      case Collective::kScatter:
        return {true, 0, rank * chunks_};
      default:
        return {true, 0, 0};
    }
  }

  std::uint32_t input_data(int rank, int chunk) const {
    switch (collective_) {
      case Collective::kAllGather:
      case Collective::kGather:
        return number(rank * chunks_ + chunk);
      case Collective::kAllToAll:
        return number(rank * ranks_ * chunks_ + chunk);
      default:
        return number(chunk);
    }
  }

  std::uint32_t output_data(int rank, int chunk) const {
    switch (collective_) {
      case Collective::kReduceScatter:
      case Collective::kScatter:
        return number(rank * chunks_ + chunk);
      case Collective::kAllToAll:
        return number((chunk / chunks_ * ranks_ + rank) * chunks_ + chunk % chunks_);
      default:
        return number(chunk);
    }
  }

  // The rank whose contribution an output chunk must hold, or kAllRanks.
  int output_source(int chunk) const {
    switch (collective_) {
      case Collective::kAllGather:
      case Collective::kGather:
      case Collective::kAllToAll:
        return chunk / chunks_;
      case Collective::kBroadcast:
      case Collective::kScatter:
        return root_;
      default:
        return kAllRanks;
    }
  }

  // Numbers that reductions may end with, 0 … : for comparing them between ranks.
  int reduced_data() const {
    return !reduces(collective_) ? 0 : collective_ == Collective::kReduceScatter ? ranks_ * chunks_ : chunks_;
  }

 private:
  static std::uint32_t number(int value) { return static_cast<std::uint32_t>(value); }

  int input_blocks(int rank) const {
    switch (collective_) {
      case Collective::kReduceScatter:
      case Collective::kAllToAll:
        return ranks_;
      case Collective::kScatter:
        return rank == root_ ? ranks_ : 0;
      case Collective::kBroadcast:
        return rank == root_ ? 1 : 0;
      case Collective::kBarrier:
        return 0;
      default:
        return 1;
    }
  }

  int output_blocks(int rank) const {
    switch (collective_) {
      case Collective::kAllGather:
      case Collective::kAllToAll:
        return ranks_;
      case Collective::kGather:
        return rank == root_ ? ranks_ : 0;
      case Collective::kReduce:
        return rank == root_ ? 1 : 0;
      case Collective::kBarrier:
        return 0;
      default:
        return 1;
    }
  }

  Collective collective_;
  int ranks_;
  int chunks_;
  int root_;
};

}  // namespace tutti

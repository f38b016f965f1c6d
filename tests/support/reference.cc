#include "support/reference.h"

namespace tutti {
namespace {

float sum_at(int ranks, std::size_t index) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += reference_input(r, index);
  return sum;
}

}  // namespace

float reference_input(int rank, std::size_t index) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 37 + index * 11) % 251);
}

std::size_t input_elements(Collective collective, int rank, int ranks, int root, std::size_t count) {
  switch (even_form(collective)) {
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return count * static_cast<std::size_t>(ranks);
    case Collective::kScatter:
      return rank == root ? count * static_cast<std::size_t>(ranks) : 0;
    case Collective::kBroadcast:
      return rank == root ? count : 0;
    case Collective::kBarrier:
      return 0;
    default:
      return count;
  }
}

std::size_t output_elements(Collective collective, int rank, int ranks, int root, std::size_t count) {
  switch (even_form(collective)) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return count * static_cast<std::size_t>(ranks);
    case Collective::kGather:
      return rank == root ? count * static_cast<std::size_t>(ranks) : 0;
    case Collective::kReduce:
      return rank == root ? count : 0;
    case Collective::kBarrier:
      return 0;
    default:
      return count;
  }
}

std::vector<float> reference_output(Collective collective, int rank, int ranks, int root, std::size_t count) {
  std::vector<float> output(output_elements(collective, rank, ranks, root, count));
  const auto own = static_cast<std::size_t>(rank) * count;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const int block = count == 0 ? 0 : static_cast<int>(i / count);
    const std::size_t place = count == 0 ? 0 : i % count;
    switch (even_form(collective)) {
      case Collective::kAllReduce:
      case Collective::kReduce:
        output[i] = sum_at(ranks, i);
        break;
      case Collective::kReduceScatter:
        output[i] = sum_at(ranks, own + i);
        break;
      case Collective::kAllGather:
      case Collective::kGather:
        output[i] = reference_input(block, place);
        break;
      case Collective::kBroadcast:
        output[i] = reference_input(root, i);
        break;
      case Collective::kScatter:
        output[i] = reference_input(root, own + i);
        break;
      case Collective::kAllToAll:
        output[i] = reference_input(block, own + place);
        break;
      default:  // a barrier
        break;
    }
  }
  return output;
}

}  // namespace tutti

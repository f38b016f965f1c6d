#include "communicator/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "executor/signature.h"
#include "reduce/float_codes.h"
#include "reduce/reference.h"

namespace tutti {
namespace {

using Kind = ReduceOp::Kind;

std::uint64_t random_of(const TestCall& call, int rank, std::size_t index) {
  return mix(mix(call.seed * 0x9E3779B97F4A7C15ull + static_cast<std::uint64_t>(rank)) + index);
}

std::uint64_t mask(DataType type) { return ~std::uint64_t{0} >> (64 - 8 * element_size(type)); }

bool adds(Kind op) { return op == Kind::kSum || op == Kind::kAvg || op == Kind::kPreMulSum; }

// At most four ranks contribute to an element, the others 0: sums stay below 8 even when each is doubled, and fp8 has
// all whole numbers up to 8.
double exact_summand(const TestCall& call, int ranks, int rank, std::size_t index) {
  const auto place = (static_cast<std::size_t>(rank) + index + call.seed) % static_cast<std::size_t>(ranks);
  if (place >= 4) return 0;
  return random_of(call, rank, index) % 2 == 0 ? 1 : -1;
}

double exact_factor(const TestCall& call, int ranks, int rank, std::size_t index) {
  const auto place = (static_cast<std::size_t>(rank) + index + call.seed) % static_cast<std::size_t>(ranks);
  constexpr double kFactors[] = {2, -1, 0.5, 1};
  return place >= 4 ? 1 : kFactors[random_of(call, rank, index) % 4];
}

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t bytes, std::size_t misalignment) : bytes_(bytes), misalignment_(misalignment) {
  const std::size_t all = (bytes + misalignment + 2 * kGuard + 63) / 64 * 64;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(64, all)));
  std::memset(memory_.get(), static_cast<int>(kPattern), all);
}

void GuardedBuffer::Free::operator()(std::byte* memory) const { std::free(memory); }

bool GuardedBuffer::intact() const {
  const auto is_pattern = [](std::byte value) { return value == kPattern; };
  const std::byte* all = memory_.get();
  const std::byte* begin = all + kGuard + misalignment_;
  return std::all_of(all, begin, is_pattern) && std::all_of(begin + bytes_, begin + bytes_ + kGuard, is_pattern);
}

std::uint64_t load_code(DataType type, const std::byte* data, std::size_t index) {
  std::uint64_t code = 0;
  std::memcpy(&code, data + index * element_size(type), element_size(type));
  return code;
}

void store_code(DataType type, std::byte* data, std::size_t index, std::uint64_t code) {
  std::memcpy(data + index * element_size(type), &code, element_size(type));
}

void prepare_reference() {
  for (int t = static_cast<int>(DataType::kF16); t < kDataTypes; ++t) encode(static_cast<DataType>(t), 1);
}

std::uint64_t input_code(const TestCall& call, int ranks, int rank, std::size_t index) {
  const std::uint64_t random = random_of(call, rank, index) & mask(call.type);
  if (!is_floating(call.type)) return random;
  if (reduces(call.collective) && adds(call.op)) return encode(call.type, exact_summand(call, ranks, rank, index));
  if (reduces(call.collective) && call.op == Kind::kProd) {
    return encode(call.type, exact_factor(call, ranks, rank, index));
  }
  return is_nan(call.type, random) ? infinity(call.type) : random;
}

ReduceOp op_of(const TestCall& call, int rank) {
  if (call.op != Kind::kPreMulSum) return call.op;
  constexpr double kScalars[] = {2, 1, -1};
  return ReduceOp::pre_mul_sum(kScalars[rank % 3]);
}

std::size_t blocks_in(const TestCall& call, int rank, int ranks) {
  const auto all = static_cast<std::size_t>(ranks);
  switch (even_form(call.collective)) {
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return all;
    case Collective::kScatter:
      return rank == call.root ? all : 0;
    case Collective::kBroadcast:
      return rank == call.root ? 1 : 0;
    case Collective::kBarrier:
      return 0;
    default:
      return 1;
  }
}

std::size_t blocks_out(const TestCall& call, int rank, int ranks) {
  const auto all = static_cast<std::size_t>(ranks);
  switch (even_form(call.collective)) {
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return all;
    case Collective::kGather:
      return rank == call.root ? all : 0;
    case Collective::kReduce:
      return rank == call.root ? 1 : 0;
    case Collective::kBarrier:
      return 0;
    default:
      return 1;
  }
}

namespace {

// Whether this rank makes it in place.
bool is_in_place(const TestCall& call, int rank, int ranks) {
  return call.in_place && call.collective != Collective::kAllToAllV && blocks_in(call, rank, ranks) > 0 &&
         blocks_out(call, rank, ranks) > 0;
}

// Elements that go from one rank to another.
std::size_t elements_between(const TestCall& call, int from, int to) {
  if (!is_vector(call.collective)) return call.count;
  const int pair = call.collective == Collective::kAllGatherV       ? from
                   : call.collective == Collective::kReduceScatterV ? to
                                                                    : from * 64 + to;
  const std::uint64_t random = mix(call.seed * 31 + static_cast<std::uint64_t>(pair));
  if (random % 4 == 0) return call.count;
  return random % 4 == 1 ? 0 : (random >> 8) % (call.count + 1);
}

enum class Side { kInput, kOutput };

// Of the block that a rank gives to another, or has from another.
std::size_t elements_of(const TestCall& call, Side side, int rank, int block) {
  return side == Side::kInput ? elements_between(call, rank, block) : elements_between(call, block, rank);
}

bool lie_one_after_the_other(const TestCall& call) { return !is_vector(call.collective) || call.seed % 4 == 0; }

// Where a block begins, on a side that has one for each rank.
std::size_t offset_of(const TestCall& call, Side side, int rank, int ranks, int block) {
  if (!is_vector(call.collective)) return static_cast<std::size_t>(block) * call.count;
  if (!lie_one_after_the_other(call)) {
    return (static_cast<std::size_t>(block + rank) + call.seed) % static_cast<std::size_t>(ranks) * call.count;
  }
  std::size_t offset = 0;
  for (int before = 0; before < block; ++before) offset += elements_of(call, side, rank, before);
  return offset;
}

// In place: where the smaller side begins in the larger one, in elements.
std::size_t own_offset(const TestCall& call, int rank, int ranks) {
  const std::size_t in = blocks_in(call, rank, ranks);
  const std::size_t out = blocks_out(call, rank, ranks);
  if (in == out) return 0;
  return offset_of(call, in > out ? Side::kInput : Side::kOutput, rank, ranks, rank);
}

struct BlockPlace {
  int block;
  std::size_t element;
};

// What element `index` of the output belongs to; nothing in a gap.
std::optional<BlockPlace> find_output(const TestCall& call, int rank, int ranks, std::size_t index) {
  if (blocks_out(call, rank, ranks) == 1) {
    return index < elements_between(call, rank, rank) ? std::optional(BlockPlace{0, index}) : std::nullopt;
  }
  if (!is_vector(call.collective)) return BlockPlace{static_cast<int>(index / call.count), index % call.count};
  for (int block = 0; block < ranks; ++block) {
    const std::size_t first = offset_of(call, Side::kOutput, rank, ranks, block);
    if (index >= first && index - first < elements_of(call, Side::kOutput, rank, block)) {
      return BlockPlace{block, index - first};
    }
  }
  return std::nullopt;
}

// The counts and offsets of one side, as a caller passes them.
struct Blocks {
  Blocks(const TestCall& call, Side side, int rank, int ranks) {
    for (int block = 0; block < ranks; ++block) {
      counts.push_back(elements_of(call, side, rank, block));
      if (!lie_one_after_the_other(call)) offsets.push_back(offset_of(call, side, rank, ranks, block));
    }
  }
  std::vector<std::size_t> counts;
  std::vector<std::size_t> offsets;
};

}  // namespace

std::optional<std::uint64_t> output_code(const TestCall& call, int ranks, int rank, std::size_t index) {
  const auto place = find_output(call, rank, ranks, index);
  if (!place) return std::nullopt;
  // What a rank that has a block for each gives to this one.
  const auto given_by = [&](int from) {
    return input_code(call, ranks, from, offset_of(call, Side::kInput, from, ranks, rank) + place->element);
  };
  switch (even_form(call.collective)) {
    case Collective::kAllGather:
    case Collective::kGather:
      return input_code(call, ranks, place->block, place->element);
    case Collective::kBroadcast:
      return input_code(call, ranks, call.root, index);
    case Collective::kScatter:
      return given_by(call.root);
    case Collective::kAllToAll:
      return given_by(place->block);
    default:
      break;
  }
  const bool scattered = even_form(call.collective) == Collective::kReduceScatter;
  std::vector<std::uint64_t> sources;
  for (int r = 0; r < ranks; ++r) {
    const std::uint64_t code = scattered ? given_by(r) : input_code(call, ranks, r, index);
    const Reduction map{call.type, op_of(call, r), ranks, false, false};
    sources.push_back(reference(map, {code}, 0));
  }
  return reference({call.type, call.op, ranks, true, false}, sources, -1);
}

Work issue(Communicator& communicator, const TestCall& call, const void* input, void* output) {
  const ReduceOp op = op_of(call, communicator.rank());
  switch (call.collective) {
    case Collective::kAllReduce:
      return communicator.all_reduce(input, output, call.count, call.type, op);
    case Collective::kAllGather:
      return communicator.all_gather(input, output, call.count, call.type);
    case Collective::kReduceScatter:
      return communicator.reduce_scatter(input, output, call.count, call.type, op);
    case Collective::kBroadcast:
      return communicator.broadcast(input, output, call.count, call.type, call.root);
    case Collective::kReduce:
      return communicator.reduce(input, output, call.count, call.type, op, call.root);
    case Collective::kGather:
      return communicator.gather(input, output, call.count, call.type, call.root);
    case Collective::kScatter:
      return communicator.scatter(input, output, call.count, call.type, call.root);
    case Collective::kAllToAll:
      return communicator.all_to_all(input, output, call.count, call.type);
    case Collective::kBarrier:
      return communicator.barrier();
    default:
      break;
  }
  const Blocks in(call, Side::kInput, communicator.rank(), communicator.ranks());
  const Blocks out(call, Side::kOutput, communicator.rank(), communicator.ranks());
  if (call.collective == Collective::kAllGatherV) {
    return communicator.all_gather_v(input, output, out.counts, out.offsets, call.type);
  }
  if (call.collective == Collective::kReduceScatterV) {
    return communicator.reduce_scatter_v(input, output, in.counts, in.offsets, call.type, op);
  }
  return communicator.all_to_all_v(input, in.counts, in.offsets, output, out.counts, out.offsets, call.type);
}

std::size_t bytes_of_first(const TestCall& call, int rank, int ranks) {
  const std::size_t in = blocks_in(call, rank, ranks);
  const std::size_t blocks = is_in_place(call, rank, ranks) ? std::max(in, blocks_out(call, rank, ranks)) : in;
  return blocks * call.count * element_size(call.type);
}

std::size_t bytes_of_second(const TestCall& call, int rank, int ranks) {
  return is_in_place(call, rank, ranks) ? 0 : blocks_out(call, rank, ranks) * call.count * element_size(call.type);
}

CallBuffers buffers_of(const TestCall& call, int rank, int ranks, std::byte* first, std::byte* second) {
  if (!is_in_place(call, rank, ranks)) return {first, second};
  std::byte* const own = first + own_offset(call, rank, ranks) * element_size(call.type);
  const std::size_t in = blocks_in(call, rank, ranks);
  const std::size_t out = blocks_out(call, rank, ranks);
  return {out > in ? own : first, in > out ? own : first};
}

void store_input(const TestCall& call, int ranks, int rank, std::byte* input) {
  const std::size_t count = blocks_in(call, rank, ranks) * call.count;
  for (std::size_t i = 0; i < count; ++i) store_code(call.type, input, i, input_code(call, ranks, rank, i));
}

float uneven_value(int rank, std::size_t index) {
  return static_cast<float>(mix(index * 8 + static_cast<std::uint64_t>(rank)) % 1'000'003) / 977;
}

std::string perform_at(Communicator& communicator, const TestCall& call, std::byte* first, std::byte* second) {
  constexpr std::size_t kEnds = 4096;
  constexpr std::size_t kStride = 61;
  const int rank = communicator.rank();
  const int ranks = communicator.ranks();
  const std::size_t size = element_size(call.type);
  const std::size_t in = blocks_in(call, rank, ranks) * call.count;
  const std::size_t out = blocks_out(call, rank, ranks) * call.count;

  const bool shared = is_in_place(call, rank, ranks);
  const auto [input, output] = buffers_of(call, rank, ranks, first, second);
  store_input(call, ranks, rank, input);
  const std::vector<std::byte> before(output, output + out * size);

  issue(communicator, call, in > 0 ? input : nullptr, out > 0 ? output : nullptr);

  const auto next = [](std::size_t i, std::size_t count) {
    return i + (i < kEnds || count - i <= kEnds + kStride ? 1 : kStride);
  };
  for (std::size_t i = 0; i < out; i = next(i, out)) {
    const std::uint64_t untouched = load_code(call.type, before.data(), i);
    const std::uint64_t expected = output_code(call, ranks, rank, i).value_or(untouched);
    const std::uint64_t actual = load_code(call.type, output, i);
    if (actual != expected) {
      return fmt::format("{} on rank {} of {}: output[{}] is {:#x}, not {:#x}", describe(call), rank, ranks, i, actual,
                         expected);
    }
  }
  for (std::size_t i = 0; !shared && i < in; i = next(i, in)) {
    if (load_code(call.type, input, i) != input_code(call, ranks, rank, i)) {
      return fmt::format("{} on rank {} of {}: changed its input", describe(call), rank, ranks);
    }
  }
  return {};
}

std::string perform(Communicator& communicator, const TestCall& call, std::size_t misalignment) {
  const int rank = communicator.rank();
  const int ranks = communicator.ranks();
  GuardedBuffer first(bytes_of_first(call, rank, ranks), misalignment);
  GuardedBuffer second(bytes_of_second(call, rank, ranks), misalignment);
  const std::string problem = perform_at(communicator, call, first.data(), second.data());
  if (!problem.empty() || (first.intact() && second.intact())) return problem;
  return fmt::format("{} on rank {} of {}: wrote beyond a buffer", describe(call), rank, ranks);
}

std::string describe(const TestCall& call) {
  return fmt::format("{} {}x{} {} root {}{} seed {}", name(call.collective), name(call.type), call.count,
                     name(ReduceOp(call.op)), call.root, call.in_place ? " in place" : "", call.seed);
}

std::uint64_t sample_seed() {
  const char* given = std::getenv("TUTTI_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20261129;
}

bool reduced() { return std::getenv("TUTTI_TEST_REDUCED") != nullptr; }

}  // namespace tutti

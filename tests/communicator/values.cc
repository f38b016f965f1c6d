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
  switch (call.collective) {
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
  switch (call.collective) {
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

std::uint64_t output_code(const TestCall& call, int ranks, int rank, std::size_t index) {
  const std::size_t own = static_cast<std::size_t>(rank) * call.count;
  const int block = static_cast<int>(index / call.count);
  const std::size_t place = index % call.count;
  switch (call.collective) {
    case Collective::kAllGather:
    case Collective::kGather:
      return input_code(call, ranks, block, place);
    case Collective::kBroadcast:
      return input_code(call, ranks, call.root, index);
    case Collective::kScatter:
      return input_code(call, ranks, call.root, own + index);
    case Collective::kAllToAll:
      return input_code(call, ranks, block, own + place);
    default:
      break;
  }
  const std::size_t element = call.collective == Collective::kReduceScatter ? own + index : index;
  std::vector<std::uint64_t> sources;
  for (int r = 0; r < ranks; ++r) {
    const std::uint64_t code = input_code(call, ranks, r, element);
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
  }
  return {};
}

std::string perform(Communicator& communicator, const TestCall& call, std::size_t misalignment) {
  const int rank = communicator.rank();
  const int ranks = communicator.ranks();
  const std::size_t size = element_size(call.type);
  const std::size_t block = call.count * size;
  const std::size_t in = blocks_in(call, rank, ranks);
  const std::size_t out = blocks_out(call, rank, ranks);
  const std::size_t own = block * static_cast<std::size_t>(rank);

  // In place, the smaller side lies in the larger one.
  const bool shared = call.in_place && in > 0 && out > 0;
  GuardedBuffer first((shared ? std::max(in, out) : in) * block, misalignment);
  GuardedBuffer second(shared ? 0 : out * block, misalignment);
  std::byte* input = first.data() + (shared && out > in ? own : 0);
  std::byte* output = shared ? first.data() + (in > out ? own : 0) : second.data();
  for (std::size_t i = 0; i < in * call.count; ++i) {
    store_code(call.type, input, i, input_code(call, ranks, rank, i));
  }

  issue(communicator, call, in > 0 ? input : nullptr, out > 0 ? output : nullptr);

  for (std::size_t i = 0; i < out * call.count; ++i) {
    const std::uint64_t expected = output_code(call, ranks, rank, i);
    const std::uint64_t actual = load_code(call.type, output, i);
    if (actual != expected) {
      return fmt::format("{} on rank {} of {}: output[{}] is {:#x}, not {:#x}", describe(call), rank, ranks, i, actual,
                         expected);
    }
  }
  if (!first.intact() || !second.intact()) {
    return fmt::format("{} on rank {} of {}: wrote beyond a buffer", describe(call), rank, ranks);
  }
  for (std::size_t i = 0; !shared && i < in * call.count; ++i) {
    if (load_code(call.type, input, i) != input_code(call, ranks, rank, i)) {
      return fmt::format("{} on rank {} of {}: changed its input", describe(call), rank, ranks);
    }
  }
  return {};
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

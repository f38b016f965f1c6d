#include "reduce/sources.h"

#include <set>

#include "hwy/targets.h"
#include "reduce/float_codes.h"
#include "reduce/kernels.h"
#include "reduce/reference.h"

namespace tutti {
namespace {

std::uint64_t random_float(DataType type, bool anything, std::mt19937_64& random) {
  const std::uint64_t bits = random();
  const std::uint64_t sign = std::uint64_t{bits & 1} << (8 * element_size(type) - 1);
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - 8 * element_size(type));
  if (!anything) return encode(type, (static_cast<double>(bits >> 11) * 0x1p-53 - 0.5) * 8);
  switch (bits >> 1 & 7) {
    case 0:
      return sign;
    case 1:
      return sign | infinity(type);
    case 2:
      return sign | (infinity(type) + 1);  // a NaN, signalling where there are such
    case 3:
      return sign | (infinity(type) - 1);
    case 4:
      return sign | 1;
    default:
      return random() & all;
  }
}

}  // namespace

Codes random_codes(DataType type, std::size_t elements, std::mt19937_64& random) {
  Codes codes(elements);
  const std::uint64_t all = ~std::uint64_t{0} >> (64 - 8 * element_size(type));
  for (std::size_t i = 0; i < elements; ++i) {
    const bool anything = i % 4 == 3;
    if (is_floating(type)) {
      codes[i] = random_float(type, anything, random);
    } else {
      codes[i] = (anything ? random() : random() % 16 - 8) & all;
    }
  }
  return codes;
}

std::vector<std::byte> packed(DataType type, const Codes& codes) {
  const std::size_t size = element_size(type);
  std::vector<std::byte> bytes(codes.size() * size);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    for (std::size_t b = 0; b < size; ++b) bytes[i * size + b] = static_cast<std::byte>(codes[i] >> (8 * b));
  }
  return bytes;
}

Codes unpacked(DataType type, const std::byte* bytes, std::size_t elements) {
  const std::size_t size = element_size(type);
  Codes codes(elements);
  for (std::size_t i = 0; i < elements; ++i) {
    for (std::size_t b = 0; b < size; ++b) codes[i] |= std::to_integer<std::uint64_t>(bytes[i * size + b]) << (8 * b);
  }
  return codes;
}

Codes expected(const Reduction& reduction, const std::vector<Codes>& sources, int mapped) {
  Codes result;
  Codes column(sources.size());
  for (std::size_t i = 0; i < sources[0].size(); ++i) {
    for (std::size_t s = 0; s < sources.size(); ++s) column[s] = sources[s][i];
    result.push_back(reference(reduction, column, mapped));
  }
  return result;
}

Codes reduced(const Reduction& reduction, const std::vector<Codes>& sources, int mapped) {
  std::vector<std::vector<std::byte>> memory;
  std::vector<const void*> pointers;
  for (const Codes& codes : sources) memory.push_back(packed(reduction.type, codes));
  for (const auto& bytes : memory) pointers.push_back(bytes.data());
  std::vector<std::byte> dst(memory[0].size());
  reduce(reduction, pointers.data(), static_cast<int>(pointers.size()), mapped, dst.data(), nullptr, sources[0].size());
  return unpacked(reduction.type, dst.data(), sources[0].size());
}

void on_every_target(const std::function<void(const std::string& target)>& body) {
  std::int64_t left = hwy::SupportedTargets();
  std::set<Kernel> kernels;
  while (left != 0) {
    const std::int64_t target = left & -left;
    left -= target;
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    // Targets that the library was not compiled for share the kernels of another.
    if (kernels.insert(float_kernels(ReduceOp::Kind::kSum, DataType::kF32)[2]).second) body(hwy::TargetName(target));
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::string to_string(const Reduction& reduction) {
  return std::string(name(reduction.type)) + " " + name(reduction.op) + (reduction.last ? " last" : "") +
         (reduction.round_every_node ? " rounded at every node" : "");
}

}  // namespace tutti

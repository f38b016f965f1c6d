#include "perf/names.h"

#include <cctype>
#include <charconv>
#include <limits>
#include <stdexcept>

namespace tutti::perf {
namespace {

// nccl-tests' order, then what it does not have.
constexpr DataType kTypes[kDataTypes] = {DataType::kI8,  DataType::kU8,   DataType::kI32,    DataType::kU32,
                                         DataType::kI64, DataType::kU64,  DataType::kF16,    DataType::kF32,
                                         DataType::kF64, DataType::kBF16, DataType::kF8E4M3, DataType::kF8E5M2,
                                         DataType::kI16, DataType::kU16};
constexpr ReduceOp::Kind kOps[ReduceOp::kKinds] = {
    ReduceOp::Kind::kSum,       ReduceOp::Kind::kProd, ReduceOp::Kind::kMax, ReduceOp::Kind::kMin, ReduceOp::Kind::kAvg,
    ReduceOp::Kind::kPreMulSum, ReduceOp::Kind::kBand, ReduceOp::Kind::kBor, ReduceOp::Kind::kBxor};

}  // namespace

const char* nccl_name(DataType type) {
  constexpr const char* kNames[kDataTypes] = {"int8",   "uint8", "int16",    "uint16", "int32",  "uint32", "int64",
                                              "uint64", "half",  "bfloat16", "float",  "double", "f8e4m3", "f8e5m2"};
  return kNames[static_cast<int>(type)];
}

std::vector<DataType> parse_types(const std::string& text) {
  std::vector<DataType> all(std::begin(kTypes), std::end(kTypes));
  if (text == "all") return all;
  std::string known = "all";
  for (const DataType type : all) {
    if (text == nccl_name(type) || text == name(type)) return {type};
    known += std::string(" ") + nccl_name(type);
  }
  throw std::invalid_argument("unknown data type '" + text + "'; there are: " + known);
}

std::vector<ReduceOp::Kind> parse_ops(const std::string& text) {
  std::vector<ReduceOp::Kind> all(std::begin(kOps), std::end(kOps));
  if (text == "all") return all;
  std::string known = "all";
  for (const ReduceOp::Kind op : all) {
    if (text == name(ReduceOp(op))) return {op};
    known += std::string(" ") + name(ReduceOp(op));
  }
  throw std::invalid_argument("unknown operation '" + text + "'; there are: " + known);
}

std::size_t parse_bytes(const std::string& text) {
  std::size_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  int shift = -1;
  if (error == std::errc() && rest == end) shift = 0;
  if (error == std::errc() && rest + 1 == end) {
    switch (std::toupper(static_cast<unsigned char>(*rest))) {
      case 'B':
        shift = 0;
        break;
      case 'K':
        shift = 10;
        break;
      case 'M':
        shift = 20;
        break;
      case 'G':
        shift = 30;
        break;
    }
  }
  if (shift < 0 || value > std::numeric_limits<std::size_t>::max() >> shift) {
    throw std::invalid_argument("'" + text + "' is no size; write a whole number of bytes, with K, M or G if you like");
  }
  return value << shift;
}

}  // namespace tutti::perf

#pragma once

#include <string>
#include <vector>

#include "tutti/types.h"

namespace tutti::perf {

// nccl-tests' spelling: "float", "half", "int8" … ; int16 and uint16 are ours.
const char* nccl_name(DataType type);

// nccl-tests' or the library's spelling, or "all". Throw std::invalid_argument that lists what there is.
std::vector<DataType> parse_types(const std::string& text);
std::vector<ReduceOp::Kind> parse_ops(const std::string& text);

// "64M", "1G", "12K", "100", "8B": binary multiples. Throws std::invalid_argument.
std::size_t parse_bytes(const std::string& text);

}  // namespace tutti::perf

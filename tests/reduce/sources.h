#pragma once

// Elements for tests, and reduce() run on every instruction set that this processor has.

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "reduce/reduce.h"

namespace tutti {

using Codes = std::vector<std::uint64_t>;  // elements, zero-extended

// Every fourth element may be anything the type has: NaNs with payloads, infinities, subnormals, extremes.
Codes random_codes(DataType type, std::size_t elements, std::mt19937_64& random);

std::vector<std::byte> packed(DataType type, const Codes& codes);
Codes unpacked(DataType type, const std::byte* bytes, std::size_t elements);

// What the contract says for each element.
Codes expected(const Reduction& reduction, const std::vector<Codes>& sources, int mapped);
// What reduce() makes of it.
Codes reduced(const Reduction& reduction, const std::vector<Codes>& sources, int mapped = -1);

// Calls body once per instruction set, with its name; until then reduce() uses it.
void on_every_target(const std::function<void(const std::string& target)>& body);

std::string to_string(const Reduction& reduction);

}  // namespace tutti

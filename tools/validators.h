#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tutti {

// A whole number in a range. (CLI11's own says neither what is allowed nor what was given where the word is no number.)
CLI::Validator whole_number_in(long least, long most);

// "A..B" or "A", which is A..A.
struct NumberRange {
  long first;
  long last;
};
CLI::Validator range_in(long least, long most);
// REQUIRES: range_in() has found it good.
NumberRange number_range(const std::string& text);

// Bytes, with K, M or G (1024) behind them or nothing; becomes the number. (CLI11's own takes -5 for 2^64 - 5.)
CLI::Validator byte_size();

// The names of all collectives.
CLI::Validator collective_name();

}  // namespace tutti

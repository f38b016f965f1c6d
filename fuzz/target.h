#pragma once

#include <cstddef>
#include <span>
#include <vector>

// What each fuzz target defines; main.cc drives it. A target feeds bytes that a stranger, a confused rank or a careless
// user might send to code that has to cope with them, and ends the process when that code does not do what it promises.
namespace tutti::fuzz {

using Bytes = std::vector<std::byte>;

// Lets random numbers of the library come again from the first of this input.
void restart_random();
// One input. The same bytes always do the same: random numbers of the library begin anew with every input.
void run(std::span<const std::byte> input);
// Called once, before everything; optional.
void prepare();
// Inputs that get far, for the fuzzer to begin with.
std::vector<Bytes> seeds();

}  // namespace tutti::fuzz

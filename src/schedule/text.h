#pragma once

#include <string>

#include "schedule/algorithm.h"
#include "schedule/step.h"
#include "schedule/value.h"

// Schedules in words, for people who look for a mistake in one.
namespace tutti {

std::string text(PeerSet set);                        // "rank 3", "everyone"
std::string text(Space space, int first, int count);  // "output[2..3]"
std::string text(const Step& step);                   // "reduce-send input[0] with rank 3's -> rank 1"
std::string describe_data(Collective collective, int ranks, int chunks, std::uint32_t data);

// "chunk 2 from ranks {0, 1, 3}".
std::string describe(const Value& value, const Contributors& contributors, Collective collective, int ranks,
                     int chunks);

}  // namespace tutti

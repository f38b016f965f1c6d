#pragma once

namespace tutti {

// The most ranks of a communicator. 16 bits number them, and the last numbers name sets of ranks (schedule/step.h).
inline constexpr int kMaxRanks = 65'000;

}  // namespace tutti

#pragma once

#include <string>
#include <vector>

#include "collectives/fitting.h"
#include "collectives/tuning.h"

namespace tutti::tune {

// What was measured of one collective at one size.
struct Measured {
  std::size_t bytes = 0;
  std::vector<double> ns;  // by algorithm
};

// From which size on which algorithm is to be taken: the fastest, but the one before as long as it is hardly slower, so
// that noise does not make choices. Sizes ascending.
std::vector<Tuning::Choice> choices(Collective collective, int ranks, int hosts,
                                    const std::vector<std::string>& algorithms, const std::vector<Measured>& sizes);

// The file, which parse_tuning() reads. `probed`: parameters of the links that were measured.
std::string tuning_text(const std::string& machine, const std::vector<FittedParameter>& probed,
                        const std::vector<Tuning::Choice>& choices);

}  // namespace tutti::tune

#pragma once

#include <functional>

#include "tutti/communicator.h"

namespace tutti::tune {

// Runs `body` once for each rank: alone in this process when a launcher started it among others, else in `ranks`
// threads. Throws what the first rank threw; the others hear of it through their communicator.
void run_crew(int ranks, const std::function<void(Communicator& world)>& body);

// Whether a launcher says who the ranks are.
bool launched();

}  // namespace tutti::tune

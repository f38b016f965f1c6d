#pragma once

#include <functional>
#include <string>

#include "bootstrap/control_plane.h"

namespace tutti {

// Who keeps a rank waiting, in words.
struct StallReport {
  std::string text;  // one line, blame first
  int blamed = -1;   // -1: nobody, or several
};

// What the answers of the others mean for the call of one rank.
struct StallPicture {
  int rank = 0;  // who asked
  int ranks = 1;
  const Survey& survey;                      // its own answer included
  std::function<std::string(int)> describe;  // "rank 3 (node1 pid 77)"
};

// Follows who waits for whom, from the rank that asked to those who wait for nobody: ranks that do not answer, that are
// in no call, or that have not begun what they have issued. Where they wait in a circle, whoever is furthest behind in
// the order of collectives is to blame. At most about 600 bytes.
StallReport explain_stall(const StallPicture& picture);

}  // namespace tutti

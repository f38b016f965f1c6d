#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "doctor/report.h"

namespace tutti::doctor {

// What the reports of several ranks say together about one communicator.
struct Diagnosis {
  std::string name;
  std::string id;
  int ranks = 1;
  std::vector<int> missing;  // ranks without a report that have not left

  // Ranks that say the same of themselves: "failed: …", "runs all_reduce f32×1000 sum #5".
  struct State {
    std::vector<int> ranks;
    std::string text;
    double waited_seconds = 0;  // the longest of them
  };
  std::vector<State> states;
  std::vector<State> stalls;  // what they were last told of one

  // The first call in which ranks differ: what each of them did there. Empty: none do.
  std::uint64_t divergence = 0;
  std::vector<State> diverging;

  std::map<int, std::set<int>> waits;  // rank → those for whom it has waited for a second or more
  struct Blame {
    std::vector<int> ranks;
    std::string text;  // what there is to say about them
  };
  std::vector<Blame> blame;  // who is waited for and waits for nobody, or waits in a circle

  std::map<int, Report::Waited> came_last;  // over all ranks' statistics

  bool healthy() const;
};

// Of reports of one communicator, at most one a rank. Never throws for what reports say.
Diagnosis diagnose(const std::vector<Report>& reports);

// "0-4,6,7".
std::string ranges(const std::vector<int>& ranks);
// A screen of plain words.
std::string to_text(const Diagnosis& diagnosis);

}  // namespace tutti::doctor

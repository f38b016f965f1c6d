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
  std::vector<int> reporting;  // ranks with a report
  std::vector<int> missing;    // without one, and they have not left

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
  std::vector<Blame> blame;  // whom failures name; who is waited for and waits for nobody, or waits in a circle

  std::map<int, Report::Waited> came_last;  // over all ranks' statistics

  bool healthy() const;
};

// Of the reports of a job: a list for each communicator, with at most one report a rank. Where a rank does not come
// because its process waits in another communicator, both say so. What is wrong comes first. Never throws for what
// reports say.
std::vector<Diagnosis> diagnose_job(const std::vector<std::vector<Report>>& communicators);
// Of one communicator alone.
Diagnosis diagnose(const std::vector<Report>& reports);

// "0-4,6,7".
std::string ranges(const std::vector<int>& ranks);
// A screen of plain words.
std::string to_text(const Diagnosis& diagnosis);

}  // namespace tutti::doctor

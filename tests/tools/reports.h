#pragma once

#include <string>
#include <vector>

#include "doctor/report.h"

namespace tutti::doctor {

// A report of a rank of communicator "dp" that has made calls 1 … last, all of them the same.
inline Report report_of(int rank, int ranks, std::uint64_t last) {
  Report report;
  report.file = "rank" + std::to_string(rank) + ".json";
  report.name = "dp";
  report.id = "0123456789abcdef";
  report.rank = rank;
  report.ranks = ranks;
  report.host = "node1";
  report.pid = 100 + rank;
  for (int r = 0; r < ranks; ++r) {
    report.members.push_back("rank " + std::to_string(r) + " (node1 pid " + std::to_string(100 + r) + ")");
  }
  for (std::uint64_t sequence = 1; sequence <= last; ++sequence) {
    Operation operation;
    operation.sequence = sequence;
    operation.what = "all_reduce f32×1000 sum";
    operation.phase = "done";
    operation.signature = "signature " + std::to_string(sequence);
    report.operations.push_back(operation);
  }
  return report;
}

// Its last call has not ended, and has waited for so long.
inline Report waiting(Report report, int waits_for = -1, double seconds = 12) {
  report.operations.back().phase = "running";
  report.operations.back().waits_for = waits_for;
  report.operations.back().waited_seconds = seconds;
  return report;
}

inline Report in_transfer(Report report, const std::string& what, int peer, double seconds = 12) {
  Operation operation;
  operation.what = what;
  operation.phase = "running";
  operation.peer = peer;
  operation.waited_seconds = seconds;
  report.operations.push_back(operation);
  return report;
}

}  // namespace tutti::doctor

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::doctor {

// One operation of a rank, as its file tells it.
struct Operation {
  std::uint64_t sequence = 0;  // 0: a send or a receive
  std::string what;            // "all_reduce f32×1000 sum"
  std::string phase;           // "queued", "running", "done", "failed", "cancelled"
  std::string signature;       // of a collective
  int peer = -1;               // of a send or a receive; -1: any
  int waits_for = -1;
  double waited_seconds = 0;

  bool is_pending() const { return phase == "queued" || phase == "running"; }
};

// One file: what one rank of one communicator knew when it was written.
struct Report {
  std::string file;
  std::string name;
  std::string id;
  int rank = 0;
  int ranks = 1;
  std::string host;
  long pid = 0;
  std::uint64_t pid_namespace = 0;  // in which the pid means something; 0: it did not know
  double written = 0;               // seconds since 1970
  bool failed = false;
  std::string failure_code;
  std::string failure_reason;
  int failure_peer = -1;
  std::string stall;                  // the last stall as it was reported; "": none
  std::map<int, std::uint64_t> left;  // after which call, by rank
  std::vector<std::string> members;   // "rank 0 (node1 pid 77)" …, perhaps not all
  struct Waited {
    std::uint64_t calls = 0;
    double seconds = 0;
  };
  std::map<int, Waited> waited_for;
  std::vector<Operation> operations;  // the latest, in the order of their issue

  // The last collective that the rank has issued; 0: none.
  std::uint64_t last_issued() const;
};

inline constexpr std::size_t kLargestFile = std::size_t{16} << 20;

// Reads the bytes of a file, which may be anything. Throws Error(kInvalidArgument) that names the file and says what it
// lacks. Texts come out without control characters, and not longer than a screen can show.
Report parse_report(std::string_view file, std::string_view bytes);

}  // namespace tutti::doctor

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedule/algorithm.h"
#include "topology/cpu_place.h"

namespace tutti {

// What a tuning file says (docs/tuning.md): parameters of the cost model, and choices that were measured. Whatever it
// leaves out is probed when the ranks meet, or as the library believes. A value; equal on all ranks.
struct Tuning {
  static constexpr int kFormat = 1;
  static constexpr std::size_t kMostBytes = 1 << 20;
  static constexpr std::size_t kMostChoices = 4096;

  struct Link {
    std::optional<double> latency_ns;
    std::optional<double> message_ns;
    std::optional<double> bytes_per_ns;
  };
  // From this size on, up to that of the next choice of the same collective, ranks and hosts.
  struct Choice {
    Collective collective = Collective::kAllReduce;
    int ranks = 0;
    int hosts = 1;
    std::size_t from_bytes = 0;
    std::string algorithm;
  };

  std::array<Link, kLinkClasses> links;
  Link remote;
  std::optional<double> step_ns;
  std::optional<double> copied_bytes_per_ns;
  std::optional<double> reduced_bytes_per_ns;
  std::vector<Choice> choices;

  std::string file;        // where it comes from; "" where there is none
  std::uint64_t hash = 0;  // of its contents; 0: none
};

// Throws Error(kInvalidSetting) that names the file, the field and what it takes.
Tuning parse_tuning(std::string_view file, std::string_view text);
// The same of a file; "" is none.
Tuning load_tuning(const std::string& file);

}  // namespace tutti

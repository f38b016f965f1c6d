#include "collectives/algorithm_override.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "collectives/registry.h"
#include "tutti/error.h"

namespace tutti {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::optional<Collective> find_collective(std::string_view text) {
  for (int c = 0; c < kCollectives; ++c) {
    if (name(static_cast<Collective>(c)) == text) return static_cast<Collective>(c);
  }
  return std::nullopt;
}

std::string collective_names() {
  std::string names;
  for (int c = 0; c < kCollectives; ++c) {
    if (c > 0) names += ", ";
    names += name(static_cast<Collective>(c));
  }
  return names;
}

// "all_reduce: one_shot, two_shot", of one collective or of all.
std::string possibilities(std::optional<Collective> only, const Layout& layout, bool reproducible) {
  std::string text;
  for (int c = 0; c < kCollectives; ++c) {
    const Collective collective = static_cast<Collective>(c);
    if (only && *only != collective) continue;
    std::string_view separator = ": ";
    text += text.empty() ? name(collective) : std::string("; ") + name(collective);
    for (const Algorithm& row : algorithms()) {
      if (row.collective != collective || !obstacle(row, layout, reproducible).empty()) continue;
      text += fmt::format("{}{}", separator, row.name);
      separator = ", ";
    }
  }
  return text;
}

[[noreturn]] void reject(std::string_view text, std::string_view why, const std::string& possible) {
  throw Error(ErrorCode::kInvalidSetting, fmt::format("TUTTI_ALGO=\"{}\": {}. Possible here: {}", text, why, possible));
}

}  // namespace

std::string_view obstacle(const Algorithm& algorithm, const Layout& layout, bool reproducible) {
  if (!algorithm.applies(layout)) return algorithm.condition;
  if (reproducible && reduces(algorithm.collective) && !algorithm.reproducible) {
    return "results that are not asked to be reproducible";
  }
  return {};
}

AlgorithmOverride::AlgorithmOverride(std::string_view text, const Layout& layout, bool reproducible) {
  std::string_view left = text;
  while (!left.empty()) {
    const std::size_t end = left.find(';');
    const std::string_view item = trimmed(left.substr(0, end));
    left = end == std::string_view::npos ? std::string_view{} : left.substr(end + 1);
    if (item.empty()) continue;

    const std::size_t colon = item.find(':');
    std::optional<Collective> only;
    std::string_view wanted = item;
    if (colon != std::string_view::npos) {
      wanted = trimmed(item.substr(colon + 1));
      only = find_collective(trimmed(item.substr(0, colon)));
      if (!only) {
        reject(text, fmt::format("\"{}\" is no collective", trimmed(item.substr(0, colon))), collective_names());
      }
    }
    std::string_view needs;
    bool named = false;
    bool taken = false;
    for (const Algorithm& row : algorithms()) {
      if (row.name != wanted || (only && row.collective != *only)) continue;
      named = true;
      const std::string_view found = obstacle(row, layout, reproducible);
      if (!found.empty()) {
        needs = found;
        continue;
      }
      chosen_[static_cast<std::size_t>(row.collective)] = &row;
      taken = true;
    }
    if (taken) continue;
    const std::string where = only ? fmt::format(" for {}", name(*only)) : std::string();
    reject(text,
           named ? fmt::format("\"{}\"{} needs {}", wanted, where, needs)
                 : fmt::format("there is no algorithm \"{}\"{}", wanted, where),
           possibilities(only, layout, reproducible));
  }
}

}  // namespace tutti

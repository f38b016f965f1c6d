#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "perf/names.h"

namespace tutti::benchmark {

// "32K", "64M": bytes. Throws std::invalid_argument.
inline std::vector<std::size_t> parse_sizes(const std::vector<std::string>& texts) {
  std::vector<std::size_t> sizes;
  for (const std::string& text : texts) sizes.push_back(perf::parse_bytes(text));
  return sizes;
}

// Reads the command line; `understand` makes of it what the program needs, or throws std::invalid_argument that says
// what is wrong. Returns how the program ends when there is nothing to measure: after its help, or a mistake.
template <class Understand>
std::optional<int> parse(CLI::App& app, int argc, char** argv, const Understand& understand) {
  try {
    app.parse(argc, argv);
    understand();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  } catch (const std::invalid_argument& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
  return std::nullopt;
}

}  // namespace tutti::benchmark

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/rank_limit.h"
#include "collectives/fitting.h"
#include "collectives/registry.h"
#include "collectives/selector.h"
#include "command.h"
#include "communicator/distances.h"
#include "probe_host.h"
#include "schedule/placement.h"
#include "topology/machine.h"
#include "validators.h"

namespace tutti {
namespace {

constexpr std::size_t kUsualRing = 2 << 20;  // twice an L2 cache of 1 MiB

struct Request {
  int ranks = 2;
  int hosts = 1;
  std::optional<Collective> collective;  // none: all
  std::optional<std::size_t> bytes;      // none: all sizes
  bool json = false;
  SelectorOptions options;
  std::vector<FittedParameter> parameters;
  std::vector<int> group_of;  // by rank; empty: none
};

// As it was typed.
struct Words {
  int ranks = 2;
  int hosts = 1;
  std::string collective;
  std::optional<std::uint64_t> bytes;
  bool reproducible = false;
  bool no_probe = false;
  std::string machine;
  bool json = false;
};

// A file of lstopo, or hwloc's synthetic language.
Machine load(std::string_view machine) {
  return machine.ends_with(".xml") ? load_machine(std::string(machine)) : synthetic_machine(std::string(machine));
}

// Ranks bound to cores, evenly spread over the machine. Nothing is measured there.
Distances spread(const Machine& machine, int ranks) {
  std::vector<Distances::Rank> all;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::size_t core = static_cast<std::size_t>(rank) * machine.cores.size() / static_cast<std::size_t>(ranks);
    all.push_back({0, place_of_threads(machine, machine.cores[core].hardware_threads), {}, {}});
  }
  return Distances(std::move(all));
}

Request request_of(const Words& words) {
  if (words.hosts > words.ranks) {
    throw CLI::ValidationError("--hosts", fmt::format("must be from 1 to {}, not \"{}\"", words.ranks, words.hosts));
  }
  const Config config = Config::from_environment();
  Request request;
  request.ranks = words.ranks;
  request.hosts = words.hosts;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (name(collective) == words.collective) request.collective = collective;
  }
  if (words.bytes) request.bytes = static_cast<std::size_t>(*words.bytes);
  request.json = words.json;
  request.options.reproducible = words.reproducible;

  const Tuning tuning = load_tuning(config.text(Setting::kTuningFile));
  const int per_host = (request.ranks + request.hosts - 1) / request.hosts;
  Fitted fitted;
  std::size_t threads = static_cast<std::size_t>(per_host);
  if (!words.machine.empty()) {
    const Machine shown = load(words.machine);
    threads = shown.usable.size();
    const Distances distances = spread(shown, request.ranks);
    const Distances::Grouping grouping = distances.grouping();
    request.group_of = grouping.group_of;
    fitted =
        fit(distances.measured(), tuning, grouping.group_of.empty() ? std::nullopt : std::optional(grouping.within));
  } else {
    fitted = fit(words.no_probe ? MeasuredHost{} : probe_host(per_host), tuning);
    if (!words.no_probe) threads = discover_machine().usable.size();
  }
  const std::size_t on_each = threads == 0 ? 1 : (static_cast<std::size_t>(per_host) + threads - 1) / threads;
  fitted.parameters.turn_ns = turn_ns(static_cast<int>(on_each));
  if (on_each > 1) fitted.origins.push_back({"turn_ns", fitted.parameters.turn_ns, Origin::kDefault});
  request.options.parameters = fitted.parameters;
  request.options.choices = tuning.choices;
  request.parameters = std::move(fitted.origins);

  request.options.algorithm = config.text(Setting::kAlgorithm);
  request.options.chunk_bytes = static_cast<std::size_t>(config.integer(Setting::kChunkBytes));
  const auto ring = config.integer(Setting::kRingBytes);
  request.options.ring_bytes = ring > 0 ? static_cast<std::size_t>(ring) : kUsualRing;
  const auto channels = config.integer(Setting::kChannels);
  request.options.channels = channels > 0 ? static_cast<int>(channels) : 2;
  request.options.all_channels = channels > 0;
  return request;
}

std::string human_bytes(std::size_t bytes) {
  constexpr const char* kUnits[] = {"", "K", "M", "G", "T"};
  int unit = 0;
  while (bytes >= 1024 && bytes % 512 == 0 && unit < 4) {
    if (bytes % 1024 != 0) return fmt::format("{:.1f}{}", static_cast<double>(bytes) / 1024, kUnits[unit + 1]);
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

std::vector<Collective> collectives_of(const Request& request) {
  if (request.collective) return {*request.collective};
  std::vector<Collective> all;
  for (int c = 0; c < kCollectives; ++c) all.push_back(static_cast<Collective>(c));
  return all;
}

// What the predictions are made from.

void print_parameters(const Request& request) {
  std::printf("cost model:");
  const char* separator = " ";
  for (const FittedParameter& parameter : request.parameters) {
    std::printf("%s%s %.4g (%s)", separator, parameter.name.c_str(), parameter.value, name(parameter.origin).data());
    separator = ", ";
  }
  std::printf("\n");
}

nlohmann::json parameters_json(const Request& request) {
  nlohmann::json rows = nlohmann::json::object();
  for (const FittedParameter& parameter : request.parameters) {
    rows[parameter.name] = {{"value", parameter.value}, {"origin", name(parameter.origin)}};
  }
  return rows;
}

// Everything about one size.

void print_candidates(const Selector& selector, Collective collective, std::size_t bytes) {
  std::printf("%s, %s bytes (predicted times in microseconds)\n", name(collective), human_bytes(bytes).c_str());
  std::printf("  %-18s %10s %10s %10s %10s %10s %10s %10s %10s %7s %4s %7s  %s\n", "algorithm", "time", "latency",
              "handling", "local", "across", "remote", "copies", "reduction", "rounds", "chan", "chunk", "why");
  for (const Selector::Candidate& candidate : selector.explain(collective, bytes)) {
    const char mark = candidate.chosen ? '*' : ' ';
    const std::string algorithm(candidate.algorithm->name);
    if (!candidate.possible) {
      std::printf("%c %-18s %10s %s\n", mark, algorithm.c_str(), "-", candidate.reason.c_str());
      continue;
    }
    const Prediction& p = candidate.prediction;
    std::printf("%c %-18s %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %10.2f %7.0f %4d %7s  %s\n", mark,
                algorithm.c_str(), p.total() / 1e3, p.latency / 1e3, p.handling / 1e3, p.local_bytes / 1e3,
                p.across_bytes / 1e3, p.remote_bytes / 1e3, p.copies / 1e3, p.reductions / 1e3, candidate.rounds,
                candidate.choice.channels, human_bytes(candidate.choice.chunk_bytes).c_str(), candidate.reason.c_str());
  }
}

nlohmann::json candidates_json(const Selector& selector, Collective collective, std::size_t bytes) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Selector::Candidate& candidate : selector.explain(collective, bytes)) {
    nlohmann::json row = {{"algorithm", candidate.algorithm->name},
                          {"possible", candidate.possible},
                          {"chosen", candidate.chosen},
                          {"reason", candidate.reason}};
    if (candidate.possible) {
      const Prediction& p = candidate.prediction;
      row["channels"] = candidate.choice.channels;
      row["chunk_bytes"] = candidate.choice.chunk_bytes;
      row["rounds"] = candidate.rounds;
      row["time_ns"] = p.total();
      row["terms_ns"] = {{"latency", p.latency},           {"handling", p.handling},
                         {"local_bytes", p.local_bytes},   {"across_bytes", p.across_bytes},
                         {"remote_bytes", p.remote_bytes}, {"copies", p.copies},
                         {"reductions", p.reductions}};
    }
    rows.push_back(row);
  }
  return {{"collective", name(collective)}, {"bytes", bytes}, {"candidates", rows}};
}

// Which algorithm runs from which size on.

struct Stretch {
  std::size_t from = 0;
  Choice choice;
};

std::vector<Stretch> stretches(const Selector& selector, Collective collective, bool at_once) {
  std::vector<Stretch> result;
  for (std::size_t index = 0; index < Selector::kClasses; ++index) {
    const std::size_t bytes = Selector::class_bytes(index);
    const Choice& choice = selector.choose(collective, bytes, at_once);
    if (choice.algorithm == Choice::kNone) return {};
    if (!result.empty() && result.back().choice.algorithm == choice.algorithm &&
        result.back().choice.channels == choice.channels) {
      continue;
    }
    result.push_back({bytes, choice});
    if (collective == Collective::kBarrier) break;
  }
  return result;
}

void print_stretches(const std::string& title, const std::vector<Stretch>& all) {
  std::printf("%-17s", title.c_str());
  const char* separator = " ";
  if (all.empty()) std::printf(" none: the slot ring is too small");
  for (const Stretch& stretch : all) {
    const std::string_view algorithm = algorithms()[stretch.choice.algorithm].name;
    std::string text(algorithm);
    if (stretch.choice.channels > 1) text += fmt::format(" x{}", stretch.choice.channels);
    if (stretch.from == 0) {
      std::printf("%s%s", separator, text.c_str());
    } else {
      std::printf("%sfrom %s: %s", separator, human_bytes(stretch.from).c_str(), text.c_str());
    }
    separator = ", ";
  }
  std::printf("\n");
}

void print_stretches(const Selector& selector, Collective collective) {
  print_stretches(name(collective), stretches(selector, collective, false));
  if (!reduces(collective)) return;
  print_stretches("  avg of f16, fp8", stretches(selector, collective, true));
}

nlohmann::json stretches_json(const std::vector<Stretch>& all) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Stretch& stretch : all) {
    rows.push_back({{"from_bytes", stretch.from},
                    {"algorithm", algorithms()[stretch.choice.algorithm].name},
                    {"channels", stretch.choice.channels},
                    {"chunk_bytes", stretch.choice.chunk_bytes}});
  }
  return rows;
}

nlohmann::json stretches_json(const Selector& selector, Collective collective) {
  nlohmann::json row = {{"collective", name(collective)},
                        {"choices", stretches_json(stretches(selector, collective, false))}};
  if (reduces(collective))
    row["choices_for_avg_of_f16_and_fp8"] = stretches_json(stretches(selector, collective, true));
  return row;
}

int run(const Words& words) {
  const Request request = request_of(words);
  const Placement placement =
      request.group_of.empty()
          ? even_placement(request.ranks, request.hosts)
          : Placement(std::vector<int>(static_cast<std::size_t>(request.ranks), 0), request.group_of);
  const Selector selector(placement.layout(0), request.options);

  if (request.json) {
    nlohmann::json document = {{"ranks", request.ranks},
                               {"hosts", request.hosts},
                               {"ring_bytes", request.options.ring_bytes},
                               {"reproducible", request.options.reproducible},
                               {"parameters", parameters_json(request)},
                               {"collectives", nlohmann::json::array()}};
    for (const Collective collective : collectives_of(request)) {
      document["collectives"].push_back(request.bytes ? candidates_json(selector, collective, *request.bytes)
                                                      : stretches_json(selector, collective));
    }
    std::printf("%s\n", document.dump(2).c_str());
    return 0;
  }
  if (placement.groups() > 1) std::printf("in %d groups, ", placement.groups());
  std::printf("%d rank%s on %d host%s, slot ring %s a rank and channel%s\n", request.ranks,
              request.ranks == 1 ? "" : "s", request.hosts, request.hosts == 1 ? "" : "s",
              human_bytes(request.options.ring_bytes).c_str(), request.options.reproducible ? ", reproducible" : "");
  print_parameters(request);
  for (const Collective collective : collectives_of(request)) {
    if (request.bytes) {
      print_candidates(selector, collective, *request.bytes);
    } else {
      print_stretches(selector, collective);
    }
  }
  return 0;
}

std::function<int()> declare(CLI::App& command) {
  const auto words = std::make_shared<Words>();
  command.add_option("--ranks", words->ranks, "ranks (2)")->check(whole_number_in(1, kMaxRanks));
  auto* const hosts =
      command.add_option("--hosts", words->hosts, "hosts that they are on (1)")->check(whole_number_in(1, kMaxRanks));
  command.add_option("--collective", words->collective, "only this one")->check(collective_name());
  command
      .add_option("--bytes", words->bytes, "every candidate for this size, its predicted time and the reason; 64K, 8M")
      ->transform(byte_size());
  command.add_flag("--reproducible", words->reproducible, "as Options::reproducible");
  auto* const no_probe = command.add_flag("--no-probe", words->no_probe, "what is believed of any machine");
  command
      .add_option("--on", words->machine,
                  "another machine: a file of lstopo, or hwloc's words: \"pack:2 numa:2 l3:2 core:4 pu:1\"")
      ->excludes(hosts)
      ->excludes(no_probe);
  command.add_flag("--json", words->json, "the same as JSON");
  return [words] { return run(*words); };
}

}  // namespace

constexpr Command kPlanCommand = {"plan", "Shows which algorithm runs at which size, and why", declare};

}  // namespace tutti

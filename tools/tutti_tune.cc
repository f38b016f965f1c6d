#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/config.h"
#include "base/file_size_limit.h"
#include "base/system_error.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "collectives/algorithm_override.h"
#include "collectives/registry.h"
#include "collectives/selector.h"
#include "command.h"
#include "probe_host.h"
#include "schedule/placement.h"
#include "topology/machine.h"
#include "tune/crew.h"
#include "tune/trial.h"
#include "tune/tuning_text.h"
#include "tutti/error.h"
#include "validators.h"

// Measures every algorithm at every size against the others, and says what the cost model would have taken.
namespace tutti {
namespace {

struct Request {
  std::string file;  // "": none is written
  int ranks = 2;     // threads, where no launcher says who the ranks are
  std::string collective;
  std::size_t largest = 16 << 20;
  double seconds = 0.05;  // a size
};

// Before anything is measured: minutes must not be lost for a file that cannot be written.
void check_place(const std::string& file) {
  if (file.empty()) return;
  const std::filesystem::path path(file);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  std::error_code failure;
  if (std::filesystem::is_directory(path, failure)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("-o {}: that is a directory; name a file", file));
  }
  if (!std::filesystem::is_directory(folder, failure)) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("-o {}: there is no directory {}", file, folder.string()));
  }
  if (::access(folder.c_str(), W_OK | X_OK) != 0) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("-o {}: cannot write in {}: {}", file, folder.string(),
                                                         std::generic_category().message(errno)));
  }
}

// The collectives that can be measured: vector forms take what their even forms take.
std::vector<Collective> collectives_of(const Request& request) {
  std::vector<Collective> result;
  for (int c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (is_vector(collective) || (!request.collective.empty() && name(collective) != request.collective)) continue;
    result.push_back(collective);
  }
  if (result.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("there is no collective \"{}\" to tune; vector forms cannot be measured for all sizes",
                            request.collective));
  }
  return result;
}

// How far the model's choices are from the fastest.
struct Loss {
  double worst = 1;
  double logs = 0;
  int sizes = 0;
  void add(double ratio) {
    worst = std::max(worst, ratio);
    logs += std::log(ratio);
    ++sizes;
  }
  double mean() const { return sizes == 0 ? 1 : std::exp(logs / sizes); }
};

class Tuner {
 public:
  Tuner(const Request& request, const Fitted& fitted, Communicator& world)
      : request_(request), fitted_(fitted), world_(world), placement_(even_placement(world.ranks(), world.hosts())) {
    SelectorOptions options;
    options.channels = 2;
    options.ring_bytes = std::max<std::size_t>(2 * discover_machine().l2_bytes, 1 << 20);
    options.parameters = fitted_.parameters;
    selector_.emplace(placement_.layout(0), options);
  }

  void run() {
    for (const Collective collective : collectives_of(request_)) measure(collective);
    if (world_.rank() != 0) return;
    std::printf("the model's choices took %.3f times as long as the fastest (geometric mean of %d), %.2f at worst\n",
                loss_.mean(), loss_.sizes, loss_.worst);
    if (!request_.file.empty()) write();
  }

 private:
  void measure(Collective collective) {
    std::vector<std::string> names;
    for (const Algorithm& row : algorithms()) {
      if (row.collective == collective && obstacle(row, placement_.layout(0), false).empty()) {
        names.emplace_back(row.name);
      }
    }
    tune::Trial trial(world_, collective, names, request_.largest);
    print_head(collective, names);
    std::vector<tune::Measured> sizes;
    const std::size_t step = collective == Collective::kBarrier ? request_.largest : 2;
    for (std::size_t bytes = 8; bytes <= request_.largest; bytes *= step) {
      sizes.push_back({bytes, trial.measure(bytes, request_.seconds)});
      if (world_.rank() == 0) print(collective, names, sizes.back());
    }
    const auto taken = tune::choices(collective, world_.ranks(), world_.hosts(), names, sizes);
    choices_.insert(choices_.end(), taken.begin(), taken.end());
  }

  void print_head(Collective collective, const std::vector<std::string>& names) const {
    if (world_.rank() != 0) return;
    std::printf("%s, %s on %s: microseconds measured (predicted)\n%10s", name(collective),
                counted(static_cast<std::uint64_t>(world_.ranks()), "rank").c_str(),
                counted(static_cast<std::uint64_t>(world_.hosts()), "host").c_str(), "bytes");
    for (const std::string& algorithm : names) std::printf(" %22s", algorithm.c_str());
    std::printf("  model takes\n");
  }

  void print(Collective collective, const std::vector<std::string>& names, const tune::Measured& size) {
    std::printf("%10zu", size.bytes);
    std::string chosen;
    std::vector<double> predicted(names.size());
    for (const Selector::Candidate& candidate : selector_->explain(collective, size.bytes)) {
      const auto place = std::ranges::find(names, candidate.algorithm->name) - names.begin();
      if (static_cast<std::size_t>(place) == names.size() || !candidate.possible) continue;
      predicted[static_cast<std::size_t>(place)] = candidate.prediction.total();
      if (candidate.chosen) chosen = candidate.algorithm->name;
    }
    for (std::size_t a = 0; a < names.size(); ++a) {
      std::printf(" %22s", fmt::format("{:.2f} ({:.2f})", size.ns[a] / 1e3, predicted[a] / 1e3).c_str());
    }
    const auto taken = static_cast<std::size_t>(std::ranges::find(names, chosen) - names.begin());
    if (taken < names.size()) {
      const double ratio = size.ns[taken] / *std::ranges::min_element(size.ns);
      loss_.add(ratio);
      std::printf("  %s, %.2f of the fastest", chosen.c_str(), ratio);
    }
    std::printf("\n");
    std::fflush(stdout);
  }

  void write() const {
    const Machine machine = discover_machine();
    const std::filesystem::path path(request_.file);
    const std::string directory = path.has_parent_path() ? path.parent_path().string() : ".";
    const std::string text = tune::tuning_text(
        fmt::format("{}, {} hardware threads", machine.cpu, machine.usable.size()), fitted_.origins, choices_);
    parse_tuning(request_.file, text);  // what is written can be read
    if (const int reason = write_whole_file(directory, path.filename().string(), text); reason != 0) {
      throw Error(ErrorCode::kSystem,
                  system_trouble(fmt::format("cannot write {}", request_.file), reason, file_size_advice(reason)));
    }
    std::printf("written to %s: set TUTTI_TUNING_FILE=%s on all ranks\n", request_.file.c_str(), request_.file.c_str());
  }

  const Request& request_;
  const Fitted& fitted_;
  Communicator& world_;
  Placement placement_;
  std::optional<Selector> selector_;
  std::vector<Tuning::Choice> choices_;
  Loss loss_;
};

int run(const Request& request) {
  check_place(request.file);
  collectives_of(request);
  // Before there are ranks that wait: a launcher's ranks are bound, and this process alone cannot measure between them.
  const Fitted fitted = fit(tune::launched() ? MeasuredHost{} : probe_host(request.ranks), {});
  tune::run_crew(request.ranks, [&](Communicator& world) { Tuner(request, fitted, world).run(); });
  return 0;
}

std::function<int()> declare(CLI::App& command) {
  struct Words {
    Request request;
    int largest_power = 24;
    int milliseconds = 50;
  };
  const auto words = std::make_shared<Words>();
  Request& request = words->request;
  command.add_option("-o", request.file, "the file to write (none)");
  command.add_option("--ranks", request.ranks, "threads, where no launcher has started ranks (2)")
      ->check(whole_number_in(2, 64));
  command.add_option("--collective", request.collective, "only this one")->check(collective_name());
  command.add_option("--largest-power", words->largest_power, "sizes up to 2^P bytes (24)")
      ->check(whole_number_in(3, 28));
  command.add_option("--ms", words->milliseconds, "milliseconds for a size (50)")->check(whole_number_in(1, 10'000));
  return [words] {
    words->request.largest = std::size_t{1} << words->largest_power;
    words->request.seconds = words->milliseconds / 1e3;
    return run(words->request);
  };
}

}  // namespace

constexpr Command kTuneCommand = {"tune", "Measures every algorithm and writes what a communicator reads", declare};

}  // namespace tutti

#include "perf/json_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "perf/names.h"
#include "perf/table.h"

extern char** environ;

namespace tutti::perf {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kFileVersion = 3;  // nccl-tests' number for this set of keys

Json truth(bool value) { return value ? "true" : "false"; }

// nccl-tests writes the whole environment; results are passed around, so here only what steers the library and never
// what lets a stranger in.
Json environment() {
  Json list = Json::array();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool ours = name.substr(0, 6) == "TUTTI_" || name.substr(0, 5) == "NCCL_";
    const bool secret = name.find("SECRET") != std::string_view::npos || name.find("COMM_ID") != std::string_view::npos;
    if (ours && !secret) list.push_back(text);
  }
  return list;
}

Json config(const Options& options, const std::vector<RankInfo>& ranks) {
  Json config;
  config["nthreads"] = options.threads;
  config["ngpus"] = 1;
  config["minimum_bytes"] = options.min_bytes;
  config["maximum_bytes"] = options.max_bytes;
  if (options.step_factor > 1) {
    config["step_factor"] = options.step_factor;
  } else {
    config["step_bytes"] = options.step_bytes;
  }
  config["warmup_iters"] = options.warmup_iterations;
  config["iterations"] = options.iterations;
  config["aggregated_iterations"] = options.aggregated;
  config["validation"] = options.checks;
  config["graph"] = 0;
  config["blocking_collectives"] = truth(options.blocking != 0);
  config["per_iter_timing"] = truth(options.per_iteration);
  config["parallel_init"] = truth(true);
  config["touch"] = truth(options.touch);
  config["buffers"] = name(options.buffers);
  config["devices"] = Json::array();
  for (const RankInfo& rank : ranks) {
    config["devices"].push_back({{"rank", rank.rank},
                                 {"group", 0},
                                 {"pid", rank.pid},
                                 {"hostname", rank.host},
                                 {"device", rank.device},
                                 {"device_hex", "0000:00:00"},
                                 {"device_info", "cpu"}});
  }
  return config;
}

Json mode(const Mode& mode, const Row& row, const Options& options) {
  Json json;
  json[options.cpu_time ? "cpu_time" : "time"] = mode.time;
  json["alg_bw"] = mode.algorithm_bandwidth;
  json["bus_bw"] = mode.bus_bandwidth;
  json["nwrong"] = mode.wrong ? Json(*mode.wrong) : Json(nullptr);
  const bool measured = !mode.single_calls.empty();
  json["time_p05"] = measured ? Json(percentile(mode.single_calls, 5)) : Json(nullptr);
  json["time_p50"] = measured ? Json(percentile(mode.single_calls, 50)) : Json(nullptr);
  json["time_p99"] = measured ? Json(percentile(mode.single_calls, 99)) : Json(nullptr);
  json["single_calls"] = mode.single_calls.size();
  const std::string_view separator = " over ";
  const std::size_t at = row.plan.find(separator);
  json["algorithm"] = row.plan.substr(0, at);
  json["transport"] = at == std::string::npos ? "" : row.plan.substr(at + separator.size());
  return json;
}

Json iterations(const std::vector<double>& times) {
  const Summary summary = summarize(times);
  return {{"min_us", summary.min},
          {"max_us", summary.max},
          {"avg_us", summary.average},
          {"p50_us", summary.p50},
          {"p95_us", summary.p95},
          {"p99_us", summary.p99},
          {"stdev_us", summary.deviation},
          {"cv_pct", summary.variation_percent()},
          {"times_us", times}};
}

Json result(const Row& row, const Options& options) {
  Json json;
  json["size"] = row.bytes;
  json["count"] = row.count;
  json["type"] = nccl_name(row.type);
  json["redop"] = row.op;
  json["root"] = std::to_string(row.root);
  json["out_of_place"] = mode(row.out_of_place, row, options);
  if (options.per_iteration) json["out_of_place_per_iter"] = iterations(row.out_of_place.iterations);
  json["in_place"] = mode(row.in_place, row, options);
  if (options.per_iteration) json["in_place_per_iter"] = iterations(row.in_place.iterations);
  json["actual_iterations"] = options.iterations;
  return json;
}

}  // namespace

std::string to_json(const JsonReport& report) {
  const double average = report.totals.average_bandwidth();
  Json json;
  json["version"] = kFileVersion;
  json["start_time"] = report.start_time;
  json["args"] = report.arguments;
  json["env"] = environment();
  json["nccl_version"] = nullptr;
  json["tutti_version"] = TUTTI_PERF_VERSION;
  json["config"] = config(report.options, report.ranks);
  json["results"] = Json::array();
  for (const Row& row : report.rows) json["results"].push_back(result(row, report.options));
  json["out_of_bounds"] = {{"count", report.totals.wrong}, {"okay", truth(report.totals.wrong == 0)}};
  json["average_bus_bandwidth"] = {
      {"bandwidth", average},
      {"okay",
       report.min_bandwidth < 0 ? Json("unchecked") : truth(average >= kMinBandwidthShare * report.min_bandwidth)}};
  json["errors"] = Json::array();
  json["end_time"] = report.end_time;
  return json.dump(1) + "\n";
}

std::string create_new_file(const std::string& path, std::string& error) {
  std::string name = path;
  for (int i = 0;; ++i) {
    const int fd = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0) {
      ::close(fd);
      return name;
    }
    if (errno != EEXIST) {
      error = std::strerror(errno);
      return "";
    }
    name = path + "." + std::to_string(i);
  }
}

}  // namespace tutti::perf

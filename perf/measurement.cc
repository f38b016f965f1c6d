#include "perf/measurement.h"

#include <time.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "perf/common_start.h"

namespace tutti::perf {
namespace {

constexpr double kMicroseconds = 1e6;
constexpr double kSingleBudget_us = 1e5;
constexpr int kMaxSingleCalls = 1000;
constexpr std::size_t kMaxShown = 12;  // mismatches of all ranks together

double seconds_now() { return now_us() * 1e-6; }

double cpu_seconds_now() {
  timespec time;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

}  // namespace

Measurement::Measurement(const Subject& subject, const Shape& shape, bool in_place, Rank& rank, Data& data,
                         Buffer& input, Buffer& output)
    : subject_(subject),
      options_(subject.options),
      shape_(shape),
      in_place_(in_place),
      rank_(rank),
      data_(data),
      output_buffer_(output),
      op_(Pattern::op_of_rank(subject.op, rank.rank)),
      checked_(subject.options.checks > 0 && (!in_place || subject.collective.in_place_defined)) {
  const std::size_t width = element_size(subject.type);
  const std::size_t at = static_cast<std::size_t>(rank.rank) * width;
  input_ = in_place ? output.data() + at * shape.send_offset : input.data();
  output_ = in_place ? output.data() + at * shape.recv_offset : output.data();
  used_bytes_ = (in_place ? std::max(shape.send, shape.recv) : shape.recv) * width;
  output_bytes_ = shape.recv * width;
  const bool counts = !subject.collective.input_at_root_only || rank.rank == subject.root;
  input_elements_ = counts ? shape.send : 0;
  segments_ = subject.collective.expected(shape, rank.rank, rank.ranks, subject.root);
  data.prepare(segments_);
}

Mode Measurement::run() {
  check_iterations();
  warm_up();

  Mode mode;
  const double own_us = back_to_back(mode.iterations) * kMicroseconds;
  mode.time = rank_.meter.combine({own_us}, options_.average)[0];
  mode.single_calls = single_calls(single_count(mode.time));
  collect(mode);
  return mode;
}

void Measurement::call() {
  rank_.slot.beat();
  subject_.collective.run({rank_.measured, input_, output_, shape_.count, subject_.type, op_, subject_.root});
}

void Measurement::produce(int variant) {
  rank_.slot.beat();
  data_.fill(input_, input_elements_, variant);
}

void Measurement::use(int variant) {
  rank_.slot.beat();
  if (checked_) {
    data_.check(output_, segments_, variant, verdict_);
  } else {
    const std::uint64_t sum = read_all(output_, output_bytes_);
    asm volatile("" : : "r"(sum));  // somebody wants it
  }
}

void Measurement::check_iterations() {
  if (!checked_) return;
  const Watched watched(rank_.slot);
  for (int i = 0; i < options_.checks; ++i) {
    const int variant = (i + 1) % kVariants;
    verdict_.iteration = i;
    std::memset(output_buffer_.data(), 0, used_bytes_);
    output_buffer_.set_guards(used_bytes_);
    produce(variant);
    call();
    use(variant);
    if (!output_buffer_.front_guard_intact()) verdict_.add(Mismatch::Kind::kOutside, rank_.rank, 0, 0, 0);
    if (!output_buffer_.back_guard_intact(used_bytes_)) verdict_.add(Mismatch::Kind::kOutside, rank_.rank, 1, 0, 0);
  }
}

void Measurement::warm_up() {
  const Watched watched(rank_.slot);
  for (int i = 0; i < options_.warmup_iterations; ++i) call();
}

double Measurement::back_to_back(std::vector<double>& iterations) {
  const auto now = options_.cpu_time ? cpu_seconds_now : seconds_now;
  const bool each = options_.touch || options_.per_iteration;
  std::vector<double> times(static_cast<std::size_t>(options_.iterations));
  // In place, a second call on the same data gives another result.
  const bool defined = !in_place_ || options_.aggregated == 1;
  int variant = 0;
  produce(variant);
  rank_.meter.start_together();

  const Watched watched(rank_.slot);
  verdict_.phase = Phase::kBackToBack;
  verdict_.iteration = 0;
  const double begin = now();
  for (double& time : times) {
    const double start = each ? now() : 0;
    for (int i = 0; i < options_.aggregated; ++i) call();
    if (options_.blocking == 1) rank_.meter.barrier();
    time = each ? now() - start : 0;
    if (!options_.touch) continue;
    if (defined) use(variant);
    variant = (variant + 1) % kVariants;
    ++verdict_.iteration;
    produce(variant);
  }
  const double whole = now() - begin;
  if (!options_.touch && !in_place_) use(variant);

  double sum = 0;
  for (const double time : times) sum += time;
  const double calls = static_cast<double>(options_.iterations) * options_.aggregated;
  if (options_.per_iteration) {
    const std::size_t skipped =
        std::min<std::size_t>(static_cast<std::size_t>(options_.per_iteration_skip), times.size() - 1);
    iterations.assign(times.begin() + static_cast<std::ptrdiff_t>(skipped), times.end());
    for (double& time : iterations) time *= kMicroseconds / options_.aggregated;
  }
  return (options_.touch ? sum : whole) / calls;
}

int Measurement::single_count(double call_us) const {
  if (options_.single_calls != kAutomatic) return options_.single_calls;
  const double fit = kSingleBudget_us / std::max(call_us, 1.0);
  return std::clamp(static_cast<int>(fit), options_.iterations, std::max(kMaxSingleCalls, options_.iterations));
}

std::vector<double> Measurement::single_calls(int count) {
  std::vector<double> begins(static_cast<std::size_t>(count)), ends(begins.size());
  int variant = 0;
  verdict_.phase = Phase::kSingle;
  verdict_.iteration = 0;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    if (options_.touch) produce(variant);
    rank_.meter.start_together();
    const Watched watched(rank_.slot);
    const double begin = rank_.shares_clock ? rank_.meter.wait_for_common_start() : now_us();
    call();
    // Without a common moment, each rank's own time.
    begins[i] = rank_.shares_clock ? begin : 0;
    ends[i] = now_us() - (rank_.shares_clock ? 0 : begin);
    // Who has ended first must not touch its buffers on the processor that another needs to end.
    if (!rank_.shares_clock) rank_.meter.barrier();
    if (options_.touch) use(variant);
    variant = (variant + 1) % kVariants;
    ++verdict_.iteration;
  }
  if (begins.empty()) return {};
  begins = rank_.meter.combine(std::move(begins), Average::kMax);
  ends = rank_.meter.combine(std::move(ends), Average::kMax);
  for (std::size_t i = 0; i < begins.size(); ++i) ends[i] -= begins[i];
  return ends;
}

void Measurement::collect(Mode& mode) {
  if (!mode.iterations.empty()) mode.iterations = rank_.meter.combine(mode.iterations, Average::kMax);
  const double bytes =
      static_cast<double>(std::max(shape_.send, shape_.recv)) * static_cast<double>(element_size(subject_.type));
  mode.algorithm_bandwidth = mode.time > 0 ? bytes / (mode.time * 1e3) : 0.0;
  mode.bus_bandwidth = mode.algorithm_bandwidth * subject_.collective.bus_factor(rank_.ranks);
  if (!checked_) return;
  mode.wrong = rank_.meter.sum(static_cast<double>(verdict_.wrong));
  if (*mode.wrong == 0) return;
  for (const Verdict& verdict : rank_.meter.all(std::vector<Verdict>{verdict_})) {
    for (std::size_t i = 0; i < verdict.explained && mode.mismatches.size() < kMaxShown; ++i) {
      mode.mismatches.push_back(verdict.first[i]);
    }
  }
}

}  // namespace tutti::perf

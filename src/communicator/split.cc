#include "communicator/split.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "base/arithmetic.h"
#include "base/log.h"
#include "communicator/setup.h"
#include "communicator/split_exchange.h"
#include "communicator/split_plan.h"

namespace tutti {
namespace {

// One rank's way through one split.
class Split {
 public:
  Split(Session& parent, int color, int key, const Options& options)
      : parent_(parent),
        heritage_(parent.heritage()),
        options_(options),
        config_(heritage_.config),
        number_(parent.next_split()),
        exchange_(parent) {
    wish_.color = color;
    wish_.key = key;
    if (options_.name.empty()) options_.name = fmt::format("{}/{}", parent.name(), color);
  }

  std::unique_ptr<Session> run() {
    const auto start = Clock::now();
    std::optional<SplitPlan> plan;
    Session::Parts parts;
    try {
      plan = agree();
      make(*plan, parts);
    } catch (const Error& error) {
      if (!exchange_.over()) exchange_.give_up(error);
      throw;
    } catch (const std::bad_alloc&) {
      if (exchange_.over()) throw;
      const Error error = CallContext::out_of_memory();
      exchange_.give_up(error);
      throw error;
    }
    exchange_.all_gather({}, 0);  // all have made theirs, and listen
    if (wish_.refusal) throw *wish_.refusal;
    if (const auto& refusal = plan->refusal(parent_.rank())) {
      throw Error(refusal->code(), fmt::format("split of \"{}\": {}", parent_.name(), refusal->what()),
                  refusal->peer());
    }
    if (wish_.color < 0) return nullptr;
    parts.setup_seconds = std::chrono::duration<double>(Clock::now() - start).count();
    log_info("communicator \"{}\": rank {} of {} split off \"{}\" in {:.1f} ms", parts.name, parts.layout.rank,
             parts.layout.ranks, parent_.name(), parts.setup_seconds * 1e3);
    return std::make_unique<Session>(std::move(parts));
  }

 private:
  SplitPlan agree() {
    wish_.name = options_.name;
    wish_.reproducible = options_.reproducible;
    try {
      check_options(options_);
      config_ = heritage_.config.with(options_.config);
      wish_.alone = config_.flag(Setting::kShmDisable);
      tuning_ = load_tuning(config_.text(Setting::kTuningFile));
      wish_.agreement = config_.agreement_hash() ^ tuning_.hash;
      wish_.agreement_text = config_.agreement_text();
      if (tuning_.hash != 0) wish_.agreement_text += fmt::format(" tuning file {:016x}", tuning_.hash);
    } catch (const Error& error) {
      wish_.refusal = error;
    }
    std::vector<SplitWish> wishes;
    try {
      for (const auto& answer : exchange_.all_gather(wish_.encode(), SplitWish::kMaxBytes)) {
        wishes.push_back(SplitWish::decode(answer));
      }
    } catch (const Error&) {
      remove_socket_files(segments_key(), config_.text(Setting::kShmDir), parent_.rank());
      throw;
    }
    return SplitPlan(std::move(wishes), [this](int rank) { return heritage_.control.describe(rank); });
  }

  void make(const SplitPlan& plan, Session::Parts& parts) {
    const std::vector<int>& members = plan.members(parent_.rank());
    const auto ranks = static_cast<int>(members.size());
    ControlPlane::Subset subset;
    if (ranks > 0) {
      subset.members = members;
      subset.rank = static_cast<int>(std::ranges::find(members, parent_.rank()) - members.begin());
      subset.label = fmt::format("{} colour {}", number_, wish_.color);
      subset.name = options_.name;
      parts.health = std::make_unique<Health>(ranks);
      parts.control = heritage_.control.split(subset, *parts.health);
    }
    std::uint64_t ring_bytes = heritage_.ring_bytes;
    if (const auto given = config_.integer(Setting::kRingBytes); given > 0) {
      ring_bytes = static_cast<std::uint64_t>(given) / SegmentLayout::kPage * SegmentLayout::kPage;
    }
    HostGroup group = find_host_group(plan, segment_layout(config_, std::max(ranks, 1), ring_bytes));
    if (ranks == 0) return;
    renumber(group, members);
    parts.group = std::make_unique<HostGroup>(std::move(group));
    reserve_area(*parts.group);
    parts.spin = heritage_.spin;
    parts.ranks_per_thread = heritage_.ranks_per_thread;
    parts.tuning = std::move(tuning_);
    parts.distances = heritage_.distances.among(members);
    complete(parts, config_, options_, subset.rank);
  }

  // Who shares memory is known: the ranks of each colour among those of the parent that do.
  HostGroup find_host_group(const SplitPlan& plan, const SegmentLayout& layout) {
    HostGroupRequest request;
    request.rank = parent_.rank();
    request.ranks = parent_.ranks();
    for (int rank = 0; rank < parent_.ranks(); ++rank) {
      const SplitWish& wish = plan.wish(rank);
      request.apart.push_back(plan.members(rank).empty());
      request.hosts.push_back(
          wish.alone ? fmt::format("rank {} alone", rank)
                     : fmt::format("host {} colour {}", heritage_.host_of[static_cast<std::size_t>(rank)], wish.color));
    }
    request.key = segments_key();
    request.directory = config_.text(Setting::kShmDir);
    request.layout = layout;
    request.exchange = [this](std::span<const std::byte> mine) { return exchange_.all_gather(mine, mine.size()); };
    request.given_up = [this] { return heritage_.health.failed(); };
    return join_host_group(request);
  }

  std::vector<std::byte> segments_key() const {
    return heritage_.control.derive_key(fmt::format("shared memory of split {}", number_));
  }

  // From the parent's ranks to those of the new communicator.
  static void renumber(HostGroup& group, const std::vector<int>& members) {
    std::vector<std::pair<int, std::uint32_t>> renumbered;  // rank, area
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      const auto rank = static_cast<int>(std::ranges::find(members, group.members[i]) - members.begin());
      renumbered.emplace_back(rank, group.areas[i]);
    }
    std::ranges::sort(renumbered);
    for (std::size_t i = 0; i < renumbered.size(); ++i) {
      group.members[i] = renumbered[i].first;
      group.areas[i] = renumbered[i].second;
    }
    std::vector<int> leader_of;
    for (const int member : members) leader_of.push_back(group.leader_of[static_cast<std::size_t>(member)]);
    group.leader_of = std::move(leader_of);
  }

  Session& parent_;
  const Heritage heritage_;
  Options options_;
  Config config_;
  Tuning tuning_;
  const std::uint64_t number_;
  SplitExchange exchange_;
  SplitWish wish_;
};

}  // namespace

std::unique_ptr<Session> split_session(Session& parent, int color, int key, const Options& options) {
  const DefaultArithmetic arithmetic;
  return Split(parent, color, key, options).run();
}

}  // namespace tutti

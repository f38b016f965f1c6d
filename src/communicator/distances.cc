#include "communicator/distances.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/bytes.h"

namespace tutti {
namespace {

// A link is near when a hop takes at most as long as so many atomic changes of a line that is at home. Processors that
// share a cache need 8 to 14 times as long, those on different dies 30 times or more.
constexpr double kNearChanges = 20;

constexpr std::size_t kMostLinks = 4096;  // that one rank tells of

// Quantised, so that all ranks calculate with the numbers that were told.
std::uint16_t hundredths(double value) {
  return static_cast<std::uint16_t>(std::clamp(std::round(value * 100), 0.0, 65535.0));
}
double from_hundredths(std::uint16_t value) { return value / 100.0; }
std::uint16_t whole(double value) { return static_cast<std::uint16_t>(std::clamp(std::round(value), 0.0, 65535.0)); }

// 0 of nothing.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

struct Samples {
  std::vector<double> hop, read, store, stream;
  void add(const ProbedLink& link) {
    const auto keep = [](std::vector<double>& samples, double value) {
      if (value > 0) samples.push_back(value);
    };
    keep(hop, link.hop_ns);
    keep(read, link.read_rate);
    keep(store, link.store_rate);
    keep(stream, link.stream_rate);
  }
};

}  // namespace

Distances::Distances(std::vector<Rank> ranks) : ranks_(std::move(ranks)) { measure(); }

Distances Distances::among(std::span<const int> members) const {
  if (ranks_.empty()) return {};
  std::vector<int> new_rank(ranks_.size(), -1);
  for (std::size_t i = 0; i < members.size(); ++i) {
    new_rank[static_cast<std::size_t>(members[i])] = static_cast<int>(i);
  }
  std::vector<Rank> chosen;
  for (const int member : members) {
    const Rank& known = ranks_[static_cast<std::size_t>(member)];
    Rank rank{known.host, known.place, known.core, {}};
    for (ProbedLink link : known.links) {
      const int renumbered = new_rank[link.member];
      if (renumbered < 0) continue;
      link.member = static_cast<std::uint32_t>(renumbered);
      rank.links.push_back(link);
    }
    chosen.push_back(std::move(rank));
  }
  return Distances(std::move(chosen));
}

double Distances::hop_ns(int a, int b) const {
  if (static_cast<std::size_t>(std::max(a, b)) >= ranks_.size()) return 0;
  for (const auto& [from, to] : {std::pair{a, b}, std::pair{b, a}}) {
    for (const ProbedLink& link : ranks_[static_cast<std::size_t>(from)].links) {
      if (static_cast<int>(link.member) == to && link.hop_ns > 0) return link.hop_ns;
    }
  }
  return 0;
}

std::optional<LinkClass> Distances::link_class(int a, int b) const {
  if (static_cast<std::size_t>(std::max(a, b)) >= ranks_.size()) return std::nullopt;
  return corrected(ranks_[static_cast<std::size_t>(a)].place, ranks_[static_cast<std::size_t>(b)].place, hop_ns(a, b));
}

std::optional<LinkClass> Distances::corrected(const CpuPlace& a, const CpuPlace& b, double hop_ns) const {
  const std::optional<LinkClass> told = told_class(a, b);
  if (hop_ns == 0 || measured_.line_ns == 0) return told;
  if (hop_ns <= kNearChanges * measured_.line_ns) return LinkClass::kNear;
  return std::max(told.value_or(LinkClass::kFar), LinkClass::kFar);
}

void Distances::measure() {
  std::vector<double> line, copy;
  for (const Rank& rank : ranks_) {
    if (rank.core.line_ns > 0) line.push_back(rank.core.line_ns);
    if (rank.core.copy_rate > 0) copy.push_back(rank.core.copy_rate);
  }
  measured_.line_ns = median(line);
  measured_.copy_rate = median(copy);

  std::array<Samples, kLinkClasses> samples;
  std::map<int, bool> host_measured;
  for (std::size_t a = 0; a < ranks_.size(); ++a) {
    for (const ProbedLink& link : ranks_[a].links) {
      const auto link_class_of = link_class(static_cast<int>(a), static_cast<int>(link.member));
      if (!link_class_of) continue;
      const auto index = static_cast<std::size_t>(*link_class_of);
      samples[index].add(link);
      if (link.hop_ns == 0) continue;
      ++measured_.links[index].links;
      host_measured[ranks_[a].host] = true;
    }
  }
  // Where nothing was measured hwloc's word counts: of different places, because there are few of them.
  std::map<int, std::vector<CpuPlace>> places;
  for (const Rank& rank : ranks_) {
    if (host_measured[rank.host]) continue;
    std::vector<CpuPlace>& seen = places[rank.host];
    const bool known = std::ranges::find(seen, rank.place) != seen.end();
    for (const CpuPlace& other : seen) {
      if (known && other != rank.place) continue;
      if (const auto told = told_class(other, rank.place)) ++measured_.links[static_cast<std::size_t>(*told)].links;
    }
    if (!known) seen.push_back(rank.place);
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    MeasuredLink& link = measured_.links[i];
    link.hop_ns = median(samples[i].hop);
    link.read_rate = median(samples[i].read);
    link.store_rate = median(samples[i].store);
    link.stream_rate = median(samples[i].stream);
  }
}

Distances::Grouping Distances::grouping() const {
  for (int CpuPlace::*kind : {&CpuPlace::numa_node, &CpuPlace::cache}) {
    std::map<int, int> sizes;
    bool all_known = !ranks_.empty();
    for (const Rank& rank : ranks_) {
      all_known &= rank.host == ranks_.front().host && rank.place.*kind != Machine::kUnknown;
      ++sizes[rank.place.*kind];
    }
    if (!all_known || sizes.size() < 2 || sizes.size() == ranks_.size()) continue;
    Grouping grouping;
    for (const Rank& rank : ranks_) grouping.group_of.push_back(rank.place.*kind);
    grouping.within = slowest_within(kind);
    return grouping;
  }
  return {};
}

// What was measured inside groups, else what hwloc says of the different places in them.
LinkClass Distances::slowest_within(int CpuPlace::*kind) const {
  std::optional<LinkClass> measured;
  LinkClass told = LinkClass::kNear;
  std::map<int, CpuPlace> first;  // of a group
  for (std::size_t a = 0; a < ranks_.size(); ++a) {
    const CpuPlace& place = ranks_[a].place;
    const CpuPlace& other = first.emplace(place.*kind, place).first->second;
    told = std::max(told, told_class(place, other).value_or(LinkClass::kNear));
    for (const ProbedLink& link : ranks_[a].links) {
      if (link.hop_ns == 0 || ranks_[link.member].place.*kind != place.*kind) continue;
      const auto link_class_of = link_class(static_cast<int>(a), static_cast<int>(link.member));
      if (link_class_of) measured = std::max(measured.value_or(LinkClass::kNear), *link_class_of);
    }
  }
  return measured.value_or(told);
}

std::vector<std::byte> encode_measurements(const LinkProbeResult& result, std::span<const int> members) {
  ByteWriter writer;
  writer.u16(hundredths(result.core.line_ns));
  writer.u16(hundredths(result.core.copy_rate));
  const std::size_t count = std::min(result.links.size(), kMostLinks);
  writer.u16(static_cast<std::uint16_t>(count));
  for (std::size_t i = 0; i < count; ++i) {
    const ProbedLink& link = result.links[i];
    const bool rated = link.read_rate > 0 || link.store_rate > 0 || link.stream_rate > 0;
    writer.u16(static_cast<std::uint16_t>(members[link.member]));
    writer.u16(whole(link.hop_ns));
    writer.u8(rated ? 1 : 0);
    if (!rated) continue;
    writer.u16(hundredths(link.read_rate));
    writer.u16(hundredths(link.store_rate));
    writer.u16(hundredths(link.stream_rate));
  }
  return writer.take();
}

void decode_measurements(std::span<const std::byte> bytes, int ranks, Distances::Rank& rank) {
  if (bytes.empty()) return;  // its host measured nothing
  ByteReader reader(bytes, "what a rank has measured of its host");
  rank.core.line_ns = from_hundredths(reader.u16());
  rank.core.copy_rate = from_hundredths(reader.u16());
  const std::size_t count = reader.u16();
  for (std::size_t i = 0; i < count; ++i) {
    ProbedLink link;
    link.member = reader.u16();
    if (static_cast<int>(link.member) >= ranks) {
      throw Error(ErrorCode::kMismatch,
                  "a rank has measured a link to one that there is not: its memory is damaged, "
                  "or it runs another version of tutti");
    }
    link.hop_ns = reader.u16();
    if (reader.u8() != 0) {
      link.read_rate = from_hundredths(reader.u16());
      link.store_rate = from_hundredths(reader.u16());
      link.stream_rate = from_hundredths(reader.u16());
    }
    rank.links.push_back(link);
  }
  reader.finish();
}

std::vector<std::pair<std::uint32_t, std::uint32_t>> rated_pairs(std::span<const CpuPlace> places) {
  std::array<bool, kLinkClasses + 1> seen{};
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t a = 0; a < places.size(); ++a) {
    for (std::uint32_t b = a + 1; b < places.size(); ++b) {
      const auto told = told_class(places[a], places[b]);
      bool& known = seen[told ? static_cast<std::size_t>(*told) : kLinkClasses];
      if (!known) pairs.emplace_back(a, b);
      known = true;
    }
  }
  return pairs;
}

}  // namespace tutti

#include "communicator/split_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/bytes.h"
#include "base/text.h"

namespace tutti {
namespace {

constexpr std::size_t kLongestName = 128;
constexpr std::size_t kLongestText = 300;

}  // namespace

std::vector<std::byte> SplitWish::encode() const {
  ByteWriter writer;
  writer.u32(static_cast<std::uint32_t>(color));
  writer.u32(static_cast<std::uint32_t>(key));
  writer.u8(reproducible ? 1 : 0);
  writer.u8(alone ? 1 : 0);
  writer.u64(agreement ^ hash_of(name));  // names are compared whole, and shown as far as they were sent
  writer.text(cut_text(name, kLongestName));
  writer.text(cut_text(agreement_text, kLongestText));
  writer.u8(refusal ? 1 : 0);
  if (refusal) {
    writer.u8(static_cast<std::uint8_t>(refusal->code()));
    writer.text(cut_text(refusal->what(), kLongestText));
  }
  return writer.take();
}

SplitWish SplitWish::decode(std::span<const std::byte> bytes) {
  ByteReader reader(bytes, "what a rank wants of a split");
  SplitWish wish;
  wish.color = static_cast<int>(reader.u32());
  wish.key = static_cast<int>(reader.u32());
  wish.reproducible = reader.u8() != 0;
  wish.alone = reader.u8() != 0;
  wish.agreement = reader.u64();
  wish.name = reader.text(kLongestName);
  wish.agreement_text = reader.text(kLongestText);
  if (reader.u8() != 0) {
    const std::uint8_t code = reader.u8();
    const auto known =
        code <= static_cast<std::uint8_t>(ErrorCode::kUnsupported) ? static_cast<ErrorCode>(code) : ErrorCode::kRemote;
    wish.refusal.emplace(known, reader.text(kLongestText));
  }
  reader.finish();
  return wish;
}

SplitPlan::SplitPlan(std::vector<SplitWish> wishes, const Describe& describe) : wishes_(std::move(wishes)) {
  groups_.resize(1);
  std::map<int, std::size_t> by_color;
  for (std::size_t rank = 0; rank < wishes_.size(); ++rank) {
    const int color = wishes_[rank].color;
    if (color < 0) {
      group_of_.push_back(0);
      continue;
    }
    const auto [group, added] = by_color.emplace(color, groups_.size());
    if (added) groups_.emplace_back();
    groups_[group->second].members.push_back(static_cast<int>(rank));
    group_of_.push_back(group->second);
  }
  for (std::size_t i = 1; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    group.refusal = disagreement(group.members, describe);
    if (group.refusal) group.members.clear();
    std::ranges::stable_sort(group.members, {}, [this](int rank) { return wish(rank).key; });
  }
}

std::optional<Error> SplitPlan::disagreement(const std::vector<int>& members, const Describe& describe) const {
  for (const int rank : members) {
    if (!wish(rank).refusal) continue;
    return Error(ErrorCode::kRemote, fmt::format("{} cannot take part: {}", describe(rank), wish(rank).refusal->what()),
                 rank);
  }
  std::map<std::pair<std::uint64_t, bool>, std::vector<int>> alike;
  for (const int rank : members) alike[{wish(rank).agreement, wish(rank).reproducible}].push_back(rank);
  const auto most = std::ranges::max_element(alike, {}, [](const auto& entry) { return entry.second.size(); });
  const int usual = most->second.front();
  const SplitWish& first = wish(usual);
  for (const int rank : members) {
    const SplitWish& other = wish(rank);
    if (other.agreement == first.agreement && other.reproducible == first.reproducible) continue;
    const auto shown = [](const SplitWish& wish) {
      return fmt::format("name \"{}\", reproducible {}, {}", wish.name, wish.reproducible ? 1 : 0, wish.agreement_text);
    };
    return Error(ErrorCode::kMismatch,
                 fmt::format("{} and {} do not agree on the communicator of colour {}: {} against {}. Give its members "
                             "the same name, reproducible and settings",
                             describe(rank), describe(usual), first.color, shown(other), shown(first)),
                 2 * most->second.size() > members.size() ? rank : Error::kNoPeer);
  }
  return std::nullopt;
}

}  // namespace tutti

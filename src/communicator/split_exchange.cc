#include "communicator/split_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/bytes.h"
#include "base/text.h"
#include "base/utf8.h"
#include "communicator/setup.h"

namespace tutti {
namespace {

constexpr std::size_t kLongestReason = 400;
// A block: whether this rank goes on, a length, bytes. Room for a reason is in each.
constexpr std::size_t kBlockBytes = 1 + 4 + kLongestReason;
enum class Says : std::uint8_t { kGoesOn, kGaveUp };

std::size_t block_bytes(std::size_t most) { return std::max(kBlockBytes, 1 + 4 + most); }

}  // namespace

std::vector<std::byte> SplitExchange::exchange(std::span<const std::byte> block) {
  std::vector<std::byte> all(block.size() * static_cast<std::size_t>(parent_.ranks()));
  over_ = true;  // unless it ends well
  CollectiveArguments arguments{Collective::kAllGather, block.data(), all.data(), block.size(), DataType::kU8, kSum, 0};
  arguments.root = kSplitMark;
  parent_.collectives().run(arguments, {});
  over_ = false;
  return all;
}

std::vector<std::vector<std::byte>> SplitExchange::all_gather(std::span<const std::byte> mine, std::size_t most) {
  ByteWriter writer;
  writer.u8(static_cast<std::uint8_t>(Says::kGoesOn));
  writer.blob(mine);
  std::vector<std::byte> block = writer.take();
  block.resize(block_bytes(most));
  const std::vector<std::byte> all = exchange(block);
  std::vector<std::vector<std::byte>> by_rank;
  for (int rank = 0; rank < parent_.ranks(); ++rank) {
    const std::size_t begin = static_cast<std::size_t>(rank) * block.size();
    ByteReader reader(std::span<const std::byte>(all).subspan(begin, block.size()), "a part of a split");
    const auto says = static_cast<Says>(reader.u8());
    if (says == Says::kGaveUp) {
      over_ = true;
      throw Error(ErrorCode::kRemote,
                  fmt::format("split of \"{}\": {} could not go on: {}", parent_.name(),
                              parent_.heritage().control.describe(rank), printable(reader.text(kLongestReason))),
                  rank);
    }
    const auto bytes = reader.blob(most);
    by_rank.emplace_back(bytes.begin(), bytes.end());
  }
  return by_rank;
}

void SplitExchange::give_up(const Error& error) {
  // The others are at an exchange of whatever length, or will be: all but the first have this one.
  ByteWriter writer;
  writer.u8(static_cast<std::uint8_t>(Says::kGaveUp));
  writer.text(cut_text(error.what(), kLongestReason));
  std::vector<std::byte> block = writer.take();
  block.resize(kBlockBytes);
  exchange(block);
  over_ = true;
}

}  // namespace tutti

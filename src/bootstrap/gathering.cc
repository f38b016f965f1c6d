#include "bootstrap/gathering.h"

#include <algorithm>

#include "bootstrap/introduction.h"

namespace tutti {
namespace {

int subtree_size(int rank, int ranks) {
  // Level by level, the ranks below are consecutive.
  long first = rank;
  long last = rank;
  long size = 0;
  while (first < ranks) {
    size += std::min<long>(last, ranks - 1) - first + 1;
    first = first * kTreeArity + 1;
    last = last * kTreeArity + kTreeArity;
  }
  return static_cast<int>(size);
}

[[noreturn]] void out_of_step() {
  throw Error(ErrorCode::kMismatch,
              "an exchange of set-up got a message of another one: do all ranks make the same calls?");
}

}  // namespace

Gathering::Gathering(int rank, int ranks)
    : rank_(rank), ranks_(ranks), below_(subtree_size(rank, ranks)), present_(static_cast<std::size_t>(ranks)) {}

void Gathering::contribute(std::span<const std::byte> mine) {
  parts_.u32(static_cast<std::uint32_t>(rank_));
  parts_.blob(mine);
  present_[static_cast<std::size_t>(rank_)] = true;
  contributed_ = true;
  ++collected_;
}

int Gathering::waits_for() const {
  if (!contributed_) return -1;
  if (sent_) return tree_parent(rank_);
  for (int child = rank_ * kTreeArity + 1; child <= rank_ * kTreeArity + tree_children(rank_, ranks_); ++child) {
    if (!present_[static_cast<std::size_t>(child)]) return child;
  }
  return -1;
}

void Gathering::take(std::span<const std::byte> parts) {
  ByteReader reader(parts, "a part of an exchange");
  if (reader.u64() != round_) out_of_step();
  while (reader.left() > 0) {
    const std::uint32_t rank = reader.u32();
    // Found here, where the child that sent it is known, and not when everything is there.
    if (rank >= present_.size() || present_[rank] || static_cast<int>(rank) <= rank_) out_of_step();
    present_[rank] = true;
    parts_.u32(rank);
    parts_.blob(reader.blob(kMaxContribution));
    if (++collected_ > below_) out_of_step();
  }
}

std::optional<std::vector<std::byte>> Gathering::ready() {
  if (collected_ < below_) return std::nullopt;
  ByteWriter message;
  message.u64(round_);
  message.raw(parts_.view());
  sent_ = true;
  collected_ = 0;
  present_.assign(present_.size(), false);
  parts_ = ByteWriter();
  return message.take();
}

std::vector<std::vector<std::byte>> Gathering::finish(std::span<const std::byte> all) {
  ByteReader reader(all, "the result of an exchange");
  if (reader.u64() != round_) out_of_step();
  std::vector<std::vector<std::byte>> by_rank(static_cast<std::size_t>(ranks_));
  std::vector<bool> present(by_rank.size());
  for (int i = 0; i < ranks_; ++i) {
    const std::size_t rank = reader.u32();
    if (rank >= by_rank.size() || present[rank]) out_of_step();
    present[rank] = true;
    const auto part = reader.blob(kMaxContribution);
    by_rank[rank].assign(part.begin(), part.end());
  }
  reader.finish();
  contributed_ = sent_ = false;
  ++round_;
  return by_rank;
}

}  // namespace tutti

#include "bootstrap/rank_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.h"

namespace tutti {
namespace {

constexpr std::size_t kMaxAddressText = 128;

[[noreturn]] void malformed(const char* what) {
  throw Error(ErrorCode::kMismatch,
              fmt::format("the table of ranks {}: do all ranks run the same version of tutti?", what));
}

}  // namespace

void encode_host(ByteWriter& writer, const HostEntry& host) {
  writer.text(host.name);
  writer.text(host.identity);
  writer.u32(static_cast<std::uint32_t>(host.addresses.size()));
  for (const std::string& address : host.addresses) writer.text(address);
}

HostEntry decode_host(ByteReader& reader) {
  HostEntry host;
  host.name = printable(reader.text(kMaxName));
  host.identity = reader.text(kMaxName);
  const std::uint32_t count = reader.u32();
  if (count > kMaxAddresses) malformed("has a host with too many addresses");
  for (std::uint32_t i = 0; i < count; ++i) host.addresses.push_back(reader.text(kMaxAddressText));
  return host;
}

std::vector<SocketAddress> usable_addresses(const std::vector<std::string>& addresses, std::uint16_t port) {
  std::vector<SocketAddress> usable;
  for (const std::string& address : addresses) {
    try {
      usable.push_back(SocketAddress::parse(address, port));
    } catch (const Error&) {
      // A link-local address names an interface of its own host, which this one may lack.
    }
  }
  return usable;
}

void RankTable::set(int rank, const HostEntry& host, std::uint32_t pid, std::uint16_t port) {
  // Ranks of one host come one after the other, mostly.
  auto found = std::find(hosts_.rbegin(), hosts_.rend(), host);
  std::size_t index = static_cast<std::size_t>(hosts_.rend() - found) - 1;
  if (found == hosts_.rend()) {
    index = hosts_.size();
    hosts_.push_back(host);
  }
  ranks_[static_cast<std::size_t>(rank)] = {static_cast<std::uint32_t>(index), pid, port};
}

std::vector<SocketAddress> RankTable::addresses(int rank) const {
  return usable_addresses(host(rank).addresses, ranks_[static_cast<std::size_t>(rank)].port);
}

std::string RankTable::describe(int rank) const {
  if (rank < 0 || rank >= ranks()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({} pid {})", rank, host(rank).name, ranks_[static_cast<std::size_t>(rank)].pid);
}

void RankTable::encode(ByteWriter& writer) const {
  writer.u32(static_cast<std::uint32_t>(hosts_.size()));
  for (const HostEntry& host : hosts_) encode_host(writer, host);
  writer.u32(static_cast<std::uint32_t>(ranks_.size()));
  for (const RankEntry& rank : ranks_) {
    writer.u32(rank.host);
    writer.u32(rank.pid);
    writer.u16(rank.port);
  }
}

RankTable RankTable::decode(ByteReader& reader, int ranks) {
  RankTable table(ranks);
  const std::uint32_t hosts = reader.u32();
  if (hosts > static_cast<std::uint32_t>(ranks)) malformed("has more hosts than ranks");
  for (std::uint32_t i = 0; i < hosts; ++i) table.hosts_.push_back(decode_host(reader));
  if (reader.u32() != static_cast<std::uint32_t>(ranks)) malformed("is for another number of ranks");
  for (RankEntry& rank : table.ranks_) {
    rank.host = reader.u32();
    rank.pid = reader.u32();
    rank.port = reader.u16();
    if (rank.host >= hosts) malformed("names a host that it lacks");
  }
  return table;
}

std::size_t RankTable::max_bytes(int ranks) {
  constexpr std::size_t kHostBytes = 2 * (4 + kMaxName) + 4 + kMaxAddresses * (4 + kMaxAddressText);
  return 8 + static_cast<std::size_t>(ranks) * (kHostBytes + 10);
}

}  // namespace tutti

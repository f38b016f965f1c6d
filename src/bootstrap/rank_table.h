#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/net/address.h"

namespace tutti {

inline constexpr std::size_t kMaxAddresses = 64;
inline constexpr std::size_t kMaxName = 256;

// What ranks of one host have in common.
struct HostEntry {
  std::string name;                    // for messages
  std::string identity;                // TUTTI_HOSTID, else boot id and name
  std::vector<std::string> addresses;  // numeric, best first
  bool operator==(const HostEntry&) const = default;
};

struct RankEntry {
  std::uint32_t host = 0;
  std::uint32_t pid = 0;
  std::uint16_t port = 0;
};

// Who is where: all ranks of a communicator, made by the root and handed down the tree. A value.
class RankTable {
 public:
  RankTable() = default;
  explicit RankTable(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  void set(int rank, const HostEntry& host, std::uint32_t pid, std::uint16_t port);

  bool empty() const { return ranks_.empty(); }
  int ranks() const { return static_cast<int>(ranks_.size()); }
  const HostEntry& host(int rank) const { return hosts_[ranks_[static_cast<std::size_t>(rank)].host]; }
  std::uint32_t pid(int rank) const { return ranks_[static_cast<std::size_t>(rank)].pid; }
  std::uint16_t port(int rank) const { return ranks_[static_cast<std::size_t>(rank)].port; }
  // Those that can be used here.
  std::vector<SocketAddress> addresses(int rank) const;
  // "rank 3 (node1 pid 77)"; just "rank 3" while the table is empty.
  std::string describe(int rank) const;

  void encode(ByteWriter& writer) const;
  // Throws Error(kMismatch) on anything malformed or for another number of ranks.
  static RankTable decode(ByteReader& reader, int ranks);
  static std::size_t max_bytes(int ranks);

 private:
  std::vector<HostEntry> hosts_;
  std::vector<RankEntry> ranks_;
};

void encode_host(ByteWriter& writer, const HostEntry& host);
HostEntry decode_host(ByteReader& reader);

// The numeric addresses that make sense on this host, with a port.
std::vector<SocketAddress> usable_addresses(const std::vector<std::string>& addresses, std::uint16_t port);

}  // namespace tutti

#include "transport/shm/host_group.h"

#include <fmt/format.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "base/log.h"
#include "transport/shm/segment_server.h"
#include "tutti/error.h"

namespace tutti {
namespace {

constexpr std::int32_t kUnsettled = -1;

// The proof in a segment's header: only a leader that knows the key can have written it.
SegmentLayout::Header header_for(std::span<const std::byte> key, int leader) {
  SegmentLayout::Header header{};
  const std::string text = "segment header of " + std::to_string(leader);
  crypto_generichash(reinterpret_cast<unsigned char*>(header.proof), sizeof(header.proof),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                     reinterpret_cast<const unsigned char*>(key.data()), key.size());
  return header;
}

template <class T>
std::span<const std::byte> bytes_of(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

// One attempt of the ranks of one host text that have found no group yet: the lowest of them leads.
struct Attempt {
  std::vector<int> candidates;
  std::uint32_t own_place = 0;
  int leader() const { return candidates.front(); }
};

Attempt next_attempt(const HostGroupRequest& request, const std::vector<std::int32_t>& leader_of) {
  const std::string& host = request.hosts[static_cast<std::size_t>(request.rank)];
  Attempt attempt;
  for (int rank = 0; rank < request.ranks; ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (leader_of[r] != kUnsettled || request.hosts[r] != host) continue;
    if (rank == request.rank) attempt.own_place = static_cast<std::uint32_t>(attempt.candidates.size());
    attempt.candidates.push_back(rank);
  }
  return attempt;
}

// Nobody of this rank's host is settled yet.
bool first_of_host(const HostGroupRequest& request, const std::vector<std::int32_t>& leader_of) {
  const std::string& host = request.hosts[static_cast<std::size_t>(request.rank)];
  for (std::size_t rank = 0; rank < leader_of.size(); ++rank) {
    if (leader_of[rank] != kUnsettled && request.hosts[rank] == host) return false;
  }
  return true;
}

// A leader that dies while it listens cannot remove its socket file: its candidates do it when the attempt ends,
// however it ends. The leader may have been faster.
class SocketFileOfLeader {
 public:
  SocketFileOfLeader() = default;
  SocketFileOfLeader(const SocketFileOfLeader&) = delete;
  SocketFileOfLeader& operator=(const SocketFileOfLeader&) = delete;
  ~SocketFileOfLeader() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  void remove_at_end(std::string path) { path_ = std::move(path); }

 private:
  std::string path_;
};

// What a leader has for its candidates.
struct Lead {
  Segment segment;
  std::unique_ptr<SegmentServer> server;  // null: there is nobody but itself
};

Segment new_segment(const HostGroupRequest& request, const SegmentLayout& layout) {
  Segment segment =
      layout.members > 1 ? Segment::create(layout.segment_bytes()) : Segment::create_private(layout.segment_bytes());
  const SegmentLayout::Header header = header_for(request.key, request.rank);
  std::memcpy(segment.data(), &header, sizeof(header));
  return segment;
}

// Where the system lets a leader share no memory it stays alone, and another one leads the rest. `first`: nobody of its
// host has led before.
Lead lead(const HostGroupRequest& request, SegmentLayout& layout, bool first) {
  if (layout.members > 1) {
    try {
      Lead made{new_segment(request, layout), nullptr};
      made.server =
          std::make_unique<SegmentServer>(SegmentAddress::derive(request.key, request.rank, request.directory),
                                          request.key, request.rank, made.segment.descriptor());
      return made;
    } catch (const NoSharedMemory& refusal) {
      // Once on a host, if all its ranks are refused.
      log_line(first ? LogLevel::kWarn : LogLevel::kInfo,
               fmt::format("rank {} talks to the other ranks of its host over TCP: {}; TUTTI_SHM_DISABLE=1 asks for "
                           "TCP without this line",
                           request.rank, refusal.what()));
    }
  }
  layout.members = 1;
  return {new_segment(request, layout), nullptr};
}

// `why`: receives the reason where there is none.
std::optional<Segment> join_leader(const HostGroupRequest& request, int leader, std::size_t bytes, std::string& why) {
  UniqueFd descriptor = request_segment(SegmentAddress::derive(request.key, leader, request.directory), request.key,
                                        leader, request.rank, request.given_up, &why);
  if (!descriptor) return std::nullopt;
  Segment segment = Segment::map(std::move(descriptor), bytes);
  const SegmentLayout::Header expected = header_for(request.key, leader);
  if (std::memcmp(segment.data(), &expected, sizeof(expected)) == 0) return segment;
  why = "what it passed on is not its memory";
  return std::nullopt;
}

// Of the ranks that share no memory with their leader, the first says it aloud.
void say_apart(const HostGroupRequest& request, const Attempt& attempt, const std::vector<std::int32_t>& leader_of,
               const std::string& why) {
  if (request.given_up && request.given_up()) return;
  const auto first = std::ranges::find_if(
      attempt.candidates, [&](int rank) { return leader_of[static_cast<std::size_t>(rank)] == kUnsettled; });
  const bool speaks = first != attempt.candidates.end() && *first == request.rank;
  log_line(
      speaks ? LogLevel::kWarn : LogLevel::kInfo,
      fmt::format("rank {} shares no memory with rank {}, though both say that they run on host {}: {}. They talk "
                  "over TCP. Ranks in network namespaces of their own need a directory that all of them see and may "
                  "write to (TUTTI_SHM_DIR); TUTTI_HOSTID tells hosts apart; TUTTI_SHM_DISABLE=1 asks for TCP "
                  "without this line",
                  request.rank, attempt.leader(), request.hosts[static_cast<std::size_t>(request.rank)], why));
}

// Only a rank whose memory is damaged, or another version, says such a thing.
[[noreturn]] void malformed(int rank, const char* what) {
  throw Error(ErrorCode::kRemote,
              fmt::format("rank {} {} while the ranks found out who shares memory: its memory is damaged, or it runs "
                          "another version of tutti",
                          rank, what),
              rank);
}

std::vector<std::int32_t> exchange_leaders(const HostGroupRequest& request, std::int32_t own_leader) {
  std::vector<std::int32_t> leaders;
  for (const auto& answer : request.exchange(bytes_of(own_leader))) {
    const int rank = static_cast<int>(leaders.size());
    std::int32_t leader = kUnsettled;
    if (answer.size() != sizeof(leader)) malformed(rank, "sent malformed bytes");
    std::memcpy(&leader, answer.data(), sizeof(leader));
    const auto host = [&request](int of) { return request.hosts[static_cast<std::size_t>(of)]; };
    if (leader != kUnsettled && (leader < 0 || leader > rank || host(leader) != host(rank))) {
      malformed(rank, "named a leader that cannot be one");
    }
    leaders.push_back(leader);
  }
  return leaders;
}

// The first rank without a leader; all when there is none.
std::size_t first_unsettled(const std::vector<std::int32_t>& leader_of) {
  return static_cast<std::size_t>(std::find(leader_of.begin(), leader_of.end(), kUnsettled) - leader_of.begin());
}

}  // namespace

HostGroup join_host_group(const HostGroupRequest& request) {
  std::vector<std::int32_t> leader_of(static_cast<std::size_t>(request.ranks), kUnsettled);
  const auto self = static_cast<std::size_t>(request.rank);
  for (std::size_t rank = 0; rank < request.apart.size(); ++rank) {
    if (request.apart[rank]) leader_of[rank] = static_cast<std::int32_t>(rank);
  }
  HostGroup group;
  std::vector<int> candidates;

  for (std::size_t first = 0; first < leader_of.size(); first = first_unsettled(leader_of)) {
    std::unique_ptr<SegmentServer> server;
    SocketFileOfLeader file;
    std::int32_t own_leader = leader_of[self];
    const bool settled = own_leader != kUnsettled;
    Attempt attempt;
    SegmentLayout layout = request.layout;
    if (!settled) {
      attempt = next_attempt(request, leader_of);
      layout.members = static_cast<std::uint32_t>(attempt.candidates.size());
      if (attempt.leader() == request.rank) {
        Lead made = lead(request, layout, first_of_host(request, leader_of));
        group.segment = std::move(made.segment);
        server = std::move(made.server);
        own_leader = request.rank;
      } else {
        file.remove_at_end(SegmentAddress::derive(request.key, attempt.leader(), request.directory).path);
      }
    }
    leader_of = exchange_leaders(request, own_leader);  // from here on, all leaders listen
    std::string why;
    // A leader that shares no memory with anybody has said so itself.
    const bool led = !settled && leader_of[static_cast<std::size_t>(attempt.leader())] == attempt.leader();
    if (!settled && own_leader == kUnsettled) {
      if (auto segment = join_leader(request, attempt.leader(), layout.segment_bytes(), why)) {
        group.segment = std::move(*segment);
        own_leader = attempt.leader();
      }
    }
    if (!settled && own_leader != kUnsettled) {
      group.layout = layout;
      group.own_area = attempt.own_place;
      candidates = attempt.candidates;
    }
    leader_of = exchange_leaders(request, own_leader);  // all have tried
    if (led && own_leader == kUnsettled) say_apart(request, attempt, leader_of, why);
    // The lowest leads at least itself: otherwise this would never end.
    if (first_unsettled(leader_of) <= first) malformed(static_cast<int>(first), "leads nobody, not even itself,");
  }

  for (std::uint32_t place = 0; place < candidates.size(); ++place) {
    const auto rank = static_cast<std::size_t>(candidates[place]);
    if (leader_of[rank] != leader_of[self]) continue;
    group.members.push_back(candidates[place]);
    group.areas.push_back(place);
  }
  group.leader_of.assign(leader_of.begin(), leader_of.end());
  return group;
}

void remove_socket_files(std::span<const std::byte> key, const std::string& directory, int rank) {
  if (directory.empty()) return;
  for (int leader = 0; leader < rank; ++leader) ::unlink(SegmentAddress::derive(key, leader, directory).path.c_str());
}

}  // namespace tutti

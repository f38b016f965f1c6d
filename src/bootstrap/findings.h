#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tutti {

// Ranks as ranges: in order, apart from each other.
class RankSet {
 public:
  using Range = std::pair<int, int>;  // first, last

  RankSet() = default;
  explicit RankSet(int rank) : ranges_{{rank, rank}} {}

  void add(const RankSet& other);
  void add(int rank);
  bool contains(int rank) const;
  bool empty() const { return ranges_.empty(); }
  int size() const;
  std::vector<int> ranks() const;
  const std::vector<Range>& ranges() const { return ranges_; }
  // REQUIRES: it begins after all that are there.
  void append(Range range) { ranges_.push_back(range); }
  std::string text() const;  // "0-4,6,7"
  bool operator==(const RankSet&) const = default;

 private:
  std::vector<Range> ranges_;
};

// One thing that a rank does in a communicator, as it says itself. Ranks are those of the communicator.
struct Activity {
  enum class Kind : std::uint8_t { kIdle, kCollective, kSend, kReceive };
  static constexpr int kNobody = -1;
  static constexpr int kSeveral = -2;
  static constexpr std::uint32_t kUnknownTime = ~std::uint32_t{0};
  static constexpr std::size_t kMaxText = 100;

  Kind kind = Kind::kIdle;
  bool begun = true;         // false: it waits for its turn on this rank
  std::uint64_t called = 0;  // the last collective that the rank has come to
  int waits_for = kNobody;
  std::uint32_t since_ms = kUnknownTime;  // in the call for so long; idle: in none for so long
  std::string text;                       // "all_reduce f32×1000 sum #1234"; "" when idle
  // What its process is in meanwhile on another communicator: "barrier #5 of \"dp\""; "": nothing that is known.
  std::string elsewhere{};

  bool is_wait() const { return kind != Kind::kIdle && begun; }

  // Whether two ranks can be told of together.
  bool is_like(const Activity& other) const;
};

// What ranks answered. It stays small when many ranks do the same.
struct Findings {
  struct Finding {
    Activity activity;
    RankSet ranks;
  };
  // A neighbour in the tree that did not answer in time, and who missed it. Ranks of the tree.
  struct Silent {
    int rank = 0;
    int observer = 0;
    bool operator==(const Silent&) const = default;
  };
  static constexpr std::size_t kMost = 256;  // findings

  std::vector<Finding> findings;
  std::vector<Silent> silent;

  void add(const Activity& activity, const RankSet& ranks);
  void add(const Findings& other);

 private:
  void shorten();
};

}  // namespace tutti

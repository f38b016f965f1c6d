#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "base/health.h"
#include "support/fault_plan.h"
#include "transport/endpoint.h"
#include "transport/transport.h"

namespace tutti {

class FaultTransport;

// What lies between the ranks of a World instead of sockets: carries lines and slots in this process, and does so as
// badly as a FaultPlan says. Owned by the World, used by the one thread that drives all ranks.
//
// Bytes are read from a sender's memory as late, and written to a receiver's in as small pieces, as the plan wants; in
// between they belong to nobody, as in the buffers of a system. What a rank had handed over before it was killed may
// still arrive.
class FaultNetwork {
 public:
  FaultNetwork(int ranks, std::uint32_t window, std::size_t longest_message);
  ~FaultNetwork();
  FaultNetwork(const FaultNetwork&) = delete;
  FaultNetwork& operator=(const FaultNetwork&) = delete;

  // One per rank; the network keeps it. REQUIRES: health outlives the network.
  FaultTransport& add_rank(Health& health);

  // From now on. Between two calls, when nothing is on its way.
  void set_plan(const FaultPlan& plan);
  const FaultPlan& plan() const { return plan_; }

  // The plan's break has happened.
  bool broken() const { return broken_; }
  bool killed(int rank) const { return broken_ && plan_.breaks == FaultPlan::Break::kKilled && rank == plan_.victim; }
  // The bug of the plan has shown.
  bool bug_struck() const { return bug_struck_; }
  // Whether a turn of this rank would, sooner or later, move something.
  bool pending(int rank) const;
  // Every message that was published was consumed, and its sender knows.
  bool settled() const;

 private:
  friend class FaultTransport;
  struct End;
  struct News {
    std::string message;
    int peer = -1;
  };

  int draw(int longest);
  bool silent(int from, int to) const;
  void count_message(int from, int to);
  void count_turn(int rank);
  void break_now();
  // Tells all ranks but `victim`, each after a while.
  void tell(std::string message, int peer);

  const std::uint32_t window_;
  const std::size_t longest_message_;
  FaultPlan plan_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<FaultTransport>> ranks_;
  bool broken_ = false;
  bool bug_struck_ = false;
  std::uint64_t progressed_ = 0;  // towards plan_.breaks_at
};

// One rank's end of a FaultNetwork. See Transport; nothing of it locks.
class FaultTransport final : public Transport {
 public:
  FaultTransport(FaultNetwork& network, int rank, Health& health);
  ~FaultTransport() override;

  // Gives the endpoint its lines, words and slots. Set before: peer, channel.
  void add_endpoint(Endpoint& endpoint);

  std::string_view name() const override { return "faults"; }
  void published(Endpoint& endpoint) override;
  void consumed(Endpoint& endpoint) override;
  void post(Endpoint& endpoint, std::byte* destination, std::uint32_t length, std::uint64_t signature) override;
  void withdraw(Endpoint& endpoint) override;
  bool progress() override;
  bool written() override;
  bool flush() override;
  int descriptor() const override { return -1; }

 private:
  friend class FaultNetwork;
  using End = FaultNetwork::End;
  struct Key {
    int peer;
    int channel;
    auto operator<=>(const Key&) const = default;
  };

  End& end_of(const Endpoint& endpoint);
  End* partner(const End& end) const;
  bool hand_over(End& end, std::size_t budget, bool all_credit);
  bool take_in(End& end, std::size_t budget);
  bool answer_late(bool ready);

  FaultNetwork& network_;
  const int rank_;
  Health& health_;
  std::map<Key, std::unique_ptr<End>> ends_;
  std::vector<End*> order_;  // in which they get their turns; shuffled
  std::optional<int> late_;  // how often written() is still to say no
  // A failure that this rank is going to be told.
  FaultNetwork::News news_;
  std::optional<int> news_in_;  // turns
};

}  // namespace tutti

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/health.h"
#include "base/net/interfaces.h"
#include "bootstrap/control_plane.h"
#include "bootstrap/dialer.h"
#include "bootstrap/rank_table.h"
#include "bootstrap/survivors.h"
#include "bootstrap/tree_messages.h"

namespace tutti {

// What a rank is in one communicator on a tree of control connections: its members, its health, its data connections.
// What it says to the other members goes through the ScopeBook. Belongs to the loop's thread.
class ControlScope {
 public:
  struct Self {
    Credentials own;           // rank and ranks in the communicator; its name
    std::string name;          // for messages
    std::vector<int> members;  // their ranks in the tree, by rank here
    std::vector<InterfaceRecord> interfaces;
    std::function<void()> on_failure;
  };

  // `health` outlives it.
  ControlScope(EventLoop& loop, Health& health, Self self);
  ~ControlScope();

  ScopeId id() const { return scope_id(self_.own.communicator); }
  const Credentials& own() const { return self_.own; }
  const std::string& name() const { return self_.name; }
  int members() const { return self_.own.ranks; }
  bool failed() const { return failed_; }

  // While its ranks meet, the root gives it the name by which others know it, and in the end the table.
  void set_communicator(const std::array<std::byte, 16>& communicator) { self_.own.communicator = communicator; }
  void set_table(std::shared_ptr<const RankTable> table) { table_ = std::move(table); }
  // "rank 3 (node1 pid 77)".
  std::string describe(int rank) const;

  // What became known of it. The first failure counts.
  void fail(const Poison& poison);
  // Fails it when the dead rank is a member. `observer`: "rank 4 (node2 pid 9)" of the tree, for one that is none.
  void learn_death(const Death& death, const std::string& observer);
  void learn_goodbye(int rank, std::uint64_t last_call) { health_.leave(rank, last_call); }

  void set_describe_call(DescribeCall describe) { describe_call_ = std::move(describe); }
  // What this rank called under that number; false: nothing that is known.
  bool describe_call(std::uint64_t sequence, CallDescription& out) const {
    return describe_call_ && describe_call_(sequence, out);
  }

  void set_survey_handlers(SurveyHandlers handlers) { surveyed_ = std::move(handlers); }
  // What this rank does; another has asked.
  void describe_activities(int asker, Findings& findings) const;
  void learn_report(const std::string& text, int blamed) const {
    if (surveyed_.reported && !failed_) surveyed_.reported(text, blamed);
  }
  // What the answers of a tree's ranks mean here. `tree`: all its ranks.
  Survey survey_of(const Findings& findings, const RankTable& tree) const;
  // The timer of this rank's next question.
  Timer& survey_timer() { return survey_timer_; }

  // Its agreement with the other members on a new communicator; made by the first who asks.
  Survivors& survivors(std::chrono::milliseconds silence);

  void set_data_handler(ControlPlane::DataHandler handler);
  void set_data_watch(std::function<void()> watch);
  void take_data(int peer, UniqueFd socket);
  // Hears when this rank waits for a peer to open the connection, and when it tries itself again.
  void set_data_waits(std::function<void(int peer, bool waits)> waits) { data_waits_ = std::move(waits); }
  // `ask` is called with what happened when the peer cannot be reached: it may reach this rank. `give_up` gets the
  // reason when neither can.
  void connect_data(int peer, std::function<void(const std::string&)> ask, std::function<void(const Poison&)> give_up);
  // The peer has asked for a connection because it could not open one.
  void call_back(int peer, const std::string& trouble, std::function<void(const Poison&)> give_up);

 private:
  void look_after_data();
  struct DataSocket {
    int peer;
    UniqueFd socket;
  };
  struct DataDial {
    std::shared_ptr<Dialer> dialer;
    Timer retry;
    Clock::time_point began;
    std::function<void(const std::string&)> ask;  // null: the peer cannot open it, or was asked
    std::function<void(const Poison&)> give_up;
    std::string of_peer = {};  // what the peer says of its own attempts
  };
  void dial(int peer);
  void dialed(int peer, Dialer::Outcome outcome);
  void wait_for_peer(int peer, const std::string& trouble);
  void give_up(const DataDial& dial, int peer, const std::string& trouble) const;
  int rank_of(int tree_rank) const;

  EventLoop& loop_;
  Health& health_;
  Self self_;
  std::shared_ptr<const RankTable> table_;  // by rank here; shared with the control plane, whose callers read it
  DescribeCall describe_call_;
  SurveyHandlers surveyed_;
  Timer survey_timer_;
  std::function<void()> data_watch_;
  Timer data_timer_;
  ControlPlane::DataHandler data_handler_;
  std::function<void(int, bool)> data_waits_;
  std::vector<DataSocket> early_data_;  // came before there was a handler
  std::map<int, DataDial> data_dials_;
  std::optional<Survivors> survivors_;
  bool failed_ = false;
};

}  // namespace tutti

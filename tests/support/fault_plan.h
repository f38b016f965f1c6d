#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tutti {

// What goes wrong on the ways between the ranks of a World. The same plan and the same order of turns give the same
// run. A turn is one call of a rank's Transport::progress().
struct FaultPlan {
  std::uint64_t seed = 1;

  // What the contract of a transport allows: results must be right all the same.
  int longest_delay = 0;         // turns of its receiver that a message, or a credit, spends on its way
  std::size_t most_bytes = 0;    // that a connection moves in a turn, from 1; 0: whatever there is
  int idle_percent = 0;          // of the turns of a connection: nothing moves
  int longest_credit_hold = 0;   // turns for which credit waits for a message to ride on
  int ignored_post_percent = 0;  // a destination that was offered is not used
  int longest_written_late = 0;  // how often written() and flush() say no though all is on its way

  // What ends badly, once.
  enum class Break {
    kNothing,
    kSilent,  // the connection between `victim` and `other` carries nothing more; nobody is told
    kLost,    // the same, and both ends are told
    kKilled,  // `victim` does nothing more; the others are told
  };
  Break breaks = Break::kNothing;
  int victim = 0;
  int other = 0;
  // When: after so many messages that the two ranks exchanged, or turns of the one that is killed.
  std::uint64_t breaks_at = 0;
  int longest_notice = 0;  // turns until a rank is told

  // Errors of a transport. Tests plant them to show that they would be found.
  enum class Bug {
    kNone,
    kSwapsMessages,        // two messages of one connection arrive in the wrong order
    kLosesCredit,          // one message counts as never consumed
    kPublishesEarly,       // before all bytes are there
    kWrittenEarly,         // written() says yes before the bytes were read
    kWritesAfterWithdraw,  // to a destination that was taken back
    kForgetsToFail,        // a rank is not told that another was killed
  };
  Bug bug = Bug::kNone;
  std::uint64_t bug_at = 0;  // the number of a message of some connection

  // Delays and shortening as `seed` decides. bytes: about what a connection carries in all, so that a run ends soon.
  static FaultPlan random(std::uint64_t seed, std::size_t bytes);
  std::string text() const;
};

}  // namespace tutti

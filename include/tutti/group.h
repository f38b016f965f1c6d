#pragma once

#include <memory>

#include "tutti/export.h"
#include "tutti/requirements.h"  // first
#include "tutti/stream.h"
#include "tutti/work.h"

namespace tutti {

// Fuses calls: what the thread that made it calls until end(), on any communicator and for any of its ranks, is issued
// together and progresses together, so that their order among each other cannot make anybody wait for ever: sends and
// receives of all sizes, collectives, one thread that acts for several ranks, and the creation of communicators
// (create, from_environment, split), which are usable after end(). All are posted before the first completes.
//
// Calls inside check their arguments at once, return a Work of their own, and must not name a stream (but may have a
// limit). Groups nest: the outermost end() issues. Collectives of one communicator keep the order of their calls.
//
//   tutti::Group group;
//   for (int peer = 0; peer < ranks; ++peer) { communicator.send(...); communicator.recv(...); }
//   group.end();
class TUTTI_API Group {
 public:
  // All calls run on this stream, and with its limit where they have none of their own. A group inside another one has
  // the stream of that one, and the calls in it have this limit, else that one's.
  explicit Group(Stream stream = {});
  // A group that was not ended, because of an exception, drops its calls: none is issued, their Works end with
  // kAborted. Only the thread that made it may do that.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  // Opens the communicators, then issues the calls: none when a communicator could not be made, whose reason it throws.
  // Without a stream it returns when all are done and throws the first error; with one it returns at once. The Work
  // stands for all of them: it is done when they are, and calls back after them. That of a group inside another one is
  // the outermost group's.
  Work end();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

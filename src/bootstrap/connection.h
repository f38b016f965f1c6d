#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/clock.h"
#include "bootstrap/challenge.h"
#include "bootstrap/event_loop.h"
#include "bootstrap/frame.h"
#include "bootstrap/incoming_frames.h"

namespace tutti {

// Frames over a connected, authenticated socket. Belongs to the loop's thread and never waits.
//
// Each frame carries a keyed hash over its number and bytes. So it does not help to get between a rank and the root,
// by taking the root's port before it does and passing the challenge on: nothing can be changed, repeated or put in.
// (The root's port is the only one that is known before its owner listens there.)
//
// Always held by shared_ptr: a callback may drop the owner's reference while the connection is still at work.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using OnFrame = std::function<void(FrameType, std::span<const std::byte>)>;
  // The other side will send no more: "" when it closed in order, else what happened. Called at most once.
  using OnEnd = std::function<void(const std::string& trouble)>;

  // Frames of more than `limit` bytes end the connection, and so does a peer that leaves several times as much unread.
  Connection(EventLoop& loop, ProvenSocket socket, std::size_t limit);

  void start(OnFrame on_frame, OnEnd on_end);
  void set_limit(std::size_t limit) {
    limit_ = limit;
    incoming_.set_limit(limit);
  }

  void send(const Frame& frame);
  void send(FrameType type, std::span<const std::byte> payload = {}) { send(make_frame(type, payload)); }
  // Everything was handed to the operating system, or never can be.
  bool drained() const { return queue_.empty(); }
  // Sends nothing more after what is queued; the other side reads to the end.
  void finish();
  bool finishing() const { return finishing_; }
  // At once; no more callbacks.
  void close();
  // Ends the connection without an owner: finishes, reads what the other side still sends, and closes when that has
  // finished, too, or after a bounded time. No more callbacks.
  void linger();
  bool closed() const { return closed_; }
  // The system of this side refused to send or to receive: the other side may not know anything.
  bool refused_here() const { return refused_here_; }

  Clock::time_point last_heard() const { return last_heard_; }
  void forget_silence() { last_heard_ = Clock::now(); }

 private:
  struct Outgoing {
    Frame frame;
    FrameTag tag;
    std::size_t size() const { return frame->size() + kFrameTagBytes; }
  };

  void read();
  bool take_frames();
  void write();
  void end(const std::string& trouble);

  EventLoop& loop_;
  Watch socket_;
  const Key sending_;
  std::uint64_t sent_ = 0;  // frames
  std::size_t limit_;
  OnFrame on_frame_;
  OnEnd on_end_;
  IncomingFrames incoming_;
  std::deque<Outgoing> queue_;
  std::size_t written_ = 0;  // of the first frame in the queue
  std::size_t queued_bytes_ = 0;
  bool waiting_to_write_ = false;
  bool finishing_ = false;
  bool broken_ = false;  // nothing can be written any more
  bool refused_here_ = false;
  bool closed_ = false;
  std::string trouble_;  // why this side gave up
  std::unique_ptr<Timer> lingering_;
  Clock::time_point last_heard_ = Clock::now();
};

}  // namespace tutti

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/handles.h"
#include "transport/endpoint.h"
#include "transport/tcp/frame.h"
#include "transport/tcp/limits.h"

namespace tutti {

// The transport's side of one endpoint: the memory that the endpoint points to, and how far both of its connections
// have come. Owned by TcpPeer; used under the transport's lock, except that whoever executes the endpoint reads and
// writes the lines as line.h says. Memory of an incoming slot is taken from the system when a message first needs it.
class TcpChannel {
 public:
  // Throws Error(kSystem) when there is no address space for `window` messages of the largest size.
  explicit TcpChannel(const TcpLimits& limits);

  // Points the endpoint at this channel's lines, words and slots.
  void bind(Endpoint& endpoint);

  // Outgoing. The endpoint has published messages up to `sent`; their slots are counted from `slots`.
  void note_published(std::uint64_t sent, const std::byte* slots);
  bool has_message() const { return begun_ < published_; }
  // The next message: its header, carrying all the credit there is, and where its payload lies.
  // REQUIRES: has_message().
  FrameHeader begin_message(const std::byte*& payload);
  void note_written(std::uint64_t number) {
    written_ = number;
    publish(words_[2].word, number);  // observed by read_up_to()
  }
  bool has_unwritten() const { return written_ < published_; }
  bool has_unacknowledged() const { return acknowledged_ < published_; }

  // Outgoing acknowledgements. Those of less than half a window wait for a message to ride on, unless `all` are asked.
  void note_consumed(std::uint64_t received);
  bool owes_credit(bool all) const;
  FrameHeader credit_frame();

  // Incoming. Null, or what is wrong with a frame that has this header; its credit is taken at once, and a message's
  // payload has a destination until arrived() publishes it in its line.
  const char* accept(const FrameHeader& header, std::byte*& destination);
  void arrived(const FrameHeader& header);

  // The next message may go to a buffer of the caller. Ignored when it is already on its way in.
  void post(std::uint64_t number, std::byte* destination, std::uint32_t length, std::uint64_t signature);
  // No message goes to a buffer of the caller any more. Returns where the rest of the message on its way in goes from
  // now on, after its first `placed` bytes were taken there; null when nothing changes.
  std::byte* withdraw(const FrameHeader* incoming, std::size_t placed);
  bool expects_message() const { return posted_.number > arrived_; }

 private:
  struct Posted {
    std::uint64_t number = 0;
    std::byte* destination = nullptr;
    std::uint32_t length = 0;
    std::uint64_t signature = 0;
  };

  std::size_t index(std::uint64_t number) const { return number & (window_ - 1); }
  std::byte* own_buffer(const FrameHeader& header);

  const std::uint32_t window_;
  const std::uint32_t max_message_bytes_;
  const std::size_t slot_bytes_;
  std::unique_ptr<Line[]> lines_;  // outgoing, then incoming
  std::unique_ptr<PaddedWord[]> words_;
  MappedMemory slots_;

  const std::byte* out_slots_ = nullptr;
  std::uint64_t published_ = 0;     // by the endpoint
  std::uint64_t begun_ = 0;         // header made
  std::uint64_t written_ = 0;       // all of it given to the system
  std::uint64_t acknowledged_ = 0;  // by the peer

  std::uint64_t accepted_ = 0;  // header seen
  std::uint64_t arrived_ = 0;   // published in its line
  std::uint64_t consumed_ = 0;  // by the endpoint
  std::uint64_t told_ = 0;      // the peer was told so
  Posted posted_;
  bool in_posted_buffer_ = false;  // the message on its way in goes to posted_.destination
};

}  // namespace tutti

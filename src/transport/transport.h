#pragma once

#include <string_view>

#include "transport/endpoint.h"

namespace tutti {

// Moves lines and slots for the endpoints whose peer does not map this rank's memory. Belongs to one communicator.
//
// The calls below may come from several threads (a collective in one, point-to-point in another); an implementation
// locks. None of them sleeps. Errors go to the communicator's Health, never up the stack.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::string_view name() const = 0;

  // A line of this endpoint was published: endpoint.sent went up. Its slot, or the buffer that it reads in place, stays
  // untouched until endpoint.taken_in says that it was read, and its line until the message is acknowledged through
  // endpoint.credit_in.
  virtual void published(Endpoint& endpoint) = 0;
  // Messages up to endpoint.received were consumed: their lines and slots may be used again, the peer may be told.
  virtual void consumed(Endpoint& endpoint) = 0;

  // The next message of this endpoint may be received straight into `destination`, provided that it has this length
  // and signature; it is then published as Way::kWritten. A hint: the message may still arrive in a slot.
  virtual void post(Endpoint& endpoint, std::byte* destination, std::uint32_t length, std::uint64_t signature) = 0;
  // Forgets what was posted: afterwards the transport writes to no buffer of the caller.
  virtual void withdraw(Endpoint& endpoint) = 0;

  // Moves what can be moved without waiting. Returns whether anything moved.
  virtual bool progress() = 0;
  // Everything published is in the hands of the operating system: a buffer that a message is read from in place may
  // change again. Acknowledgements may still be held back, for a message to carry them later.
  virtual bool written() { return flush(); }
  // Everything published, and every acknowledgement owed, is in the hands of the operating system. Acknowledgements
  // may be held back to coalesce them until this is asked.
  virtual bool flush() = 0;

  // This rank publishes and acknowledges nothing more: what it has is sent, and that it was all. Before its goodbye, so
  // that peers who have heard of that find out here what it has sent.
  virtual void finish() {}
  // Whether everything that a peer which has left ever sent here is published; or nothing came for so long that the
  // path to it must be taken for dead.
  virtual bool has_all(int /*peer*/) { return true; }

  // Readable when progress() has something to do that does not come from this process: for poll(2). -1: none.
  virtual int descriptor() const = 0;
};

}  // namespace tutti

#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "transport/tcp/frame.h"

namespace tutti {

// Whoever is told what a stream of frames contains.
class FrameSink {
 public:
  // Null when the frame may come; otherwise what is wrong with it, as in "rank 3 sent <a message out of turn>".
  // For a message, `destination` is set to where its header.length bytes go; they stay the sink's.
  virtual const char* begin(const FrameHeader& header, std::byte*& destination) = 0;
  // All of it is there.
  virtual void finish(const FrameHeader& header) = 0;

 protected:
  ~FrameSink() = default;
};

// Takes a stream of bytes apart into frames, wherever it was cut. It knows no socket: bytes are put where space() says
// and then filled() looks at them. Large payloads go straight to their destination, small frames come through a buffer
// of its own, many at a time. Nothing of a message is placed before its header was accepted, and never more than the
// header announced. One thread at a time; no allocation.
class FrameReader {
 public:
  // A message of at least so much ends its piece of reading: whoever waits for it should look at it while it is warm.
  static constexpr std::size_t kLargePayload = 16 * 1024;

  // Where the next bytes of the stream belong. Never empty.
  std::span<std::byte> space();

  // So many bytes were put there. Null, or what is wrong with the stream, after which it is not read any further.
  const char* filled(std::size_t bytes, FrameSink& sink);

  // Whether the last call of filled() ended a large message; nothing that it was given is left over then.
  bool finished_large() const { return finished_large_; }

  // Between two frames: the stream may end here.
  bool between_frames() const { return !in_payload_ && staged_ == 0; }

  // The message that is being read, or null; how much of it is there, and where the rest goes from now on.
  const FrameHeader* current() const { return in_payload_ ? &header_ : nullptr; }
  std::size_t placed() const { return placed_; }
  void redirect(std::byte* destination) { destination_ = destination; }

 private:
  void finish_payload(FrameSink& sink);

  FrameHeader header_;
  std::byte* destination_ = nullptr;
  std::size_t placed_ = 0;
  bool in_payload_ = false;
  bool finished_large_ = false;
  std::size_t staged_ = 0;
  std::array<std::byte, 8192> staging_;
};

}  // namespace tutti

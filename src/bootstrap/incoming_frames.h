#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/net/key.h"
#include "bootstrap/frame.h"

namespace tutti {

// Takes a stream of bytes apart into frames and checks that each was sent by the holder of the key, next in turn. It
// knows no socket: bytes are added as they come. Keeps at most one frame of the largest size and what came with it.
// Owned by a connection; one thread.
class IncomingFrames {
 public:
  struct Frame {
    FrameType type;
    std::span<const std::byte> payload;  // until add() or drop_taken()
  };

  // Frames of more than `limit` bytes are trouble.
  IncomingFrames(const Key& key, std::size_t limit) : key_(key), limit_(limit) {}
  void set_limit(std::size_t limit) { limit_ = limit; }

  void add(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  // The next whole frame; nothing while it is not there, and nothing ever after trouble().
  std::optional<Frame> next();
  // Forgets the frames that next() gave.
  void drop_taken();

  // What is wrong with the stream; null: nothing so far.
  const char* trouble() const { return trouble_; }
  // Nothing of a further frame is there: the stream may end here.
  bool between_frames() const { return taken_ == bytes_.size(); }

 private:
  const Key key_;
  std::size_t limit_;
  std::vector<std::byte> bytes_;
  std::size_t taken_ = 0;       // of them, by frames that next() gave
  std::uint64_t received_ = 0;  // frames
  const char* trouble_ = nullptr;
};

}  // namespace tutti

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

// Notices that a hypervisor has moved a peer of this host nearer or farther. What was measured when the ranks met is
// the first opinion; afterwards, now and then, the time of one load of a line that the peer has written last. The
// median of a few counts: a load can be slow because the peer is just writing, or fast because the line has been here
// before.
//
// Belongs to whoever executes calls; one thread at a time. Arithmetic only.
class DistanceWatch {
 public:
  // From a line's way of so many nanoseconds on, the peer is far: taking lines back from it costs more than going past
  // the caches.
  static constexpr double kFar_ns = 120;
  // A load that is timed includes the clock; the two limits keep the opinion from going to and fro.
  static constexpr double kFarLoad_ns = 170;
  static constexpr double kNearLoad_ns = 140;
  static constexpr std::size_t kSamples = 5;

  // hop_ns: 0 when nobody knows.
  explicit DistanceWatch(double hop_ns = 0) : far_(hop_ns >= kFar_ns) {
    samples_.fill(far_ ? kFarLoad_ns : kNearLoad_ns);
  }

  bool is_far() const { return far_; }

  void note(double load_ns) {
    samples_[next_++ % kSamples] = load_ns;
    std::array<double, kSamples> sorted = samples_;
    std::nth_element(sorted.begin(), sorted.begin() + kSamples / 2, sorted.end());
    const double median = sorted[kSamples / 2];
    if (far_ ? median < kNearLoad_ns : median > kFarLoad_ns) far_ = !far_;
  }

 private:
  std::array<double, kSamples> samples_{};
  std::size_t next_ = 0;
  bool far_;
};

}  // namespace tutti

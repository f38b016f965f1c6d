#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti {

// Notices that a hypervisor has moved a peer of this host nearer or farther. What was measured when the ranks met is
// the first opinion; afterwards, now and then, the time of one load of a line that the peer has just written is
// compared with what such loads took at first. All but one of the last few must agree: a thread can be held up, a page
// be hard to find, and a processor may have fetched the line before it was asked to.
//
// Belongs to whoever executes calls; one thread at a time. Arithmetic only.
class DistanceWatch {
 public:
  // From a line's way of so many nanoseconds on, the peer is far: taking lines back from it costs more than going past
  // the caches.
  static constexpr double kFar_ns = 120;
  // A peer that is so many times slower than it was is far now; one that takes so little of the time is near. Ways on a
  // die and across differ by more, even with the clock included.
  static constexpr double kFarther = 1.8;
  static constexpr double kNearer = 0.55;
  // … and differ by so much at least: some clocks tick every 10 ns, and a load on a die takes two ticks or four.
  static constexpr double kLeastChange_ns = 40;
  static constexpr std::size_t kSamples = 7;

  // hop_ns: 0 when nobody knows.
  explicit DistanceWatch(double hop_ns = 0) : far_(hop_ns >= kFar_ns) {}

  bool is_far() const { return far_; }

  void note(double load_ns) {
    samples_[count_++ % kSamples] = load_ns;
    if (count_ < kSamples) return;
    std::array<double, kSamples> sorted = samples_;
    std::sort(sorted.begin(), sorted.end());
    const double median = sorted[kSamples / 2];
    const double slow = sorted[1];             // all but one took so long, or longer …
    const double fast = sorted[kSamples - 2];  // … or all but one at most so long
    const bool farther = slow > kFarther * usual_ && slow > usual_ + kLeastChange_ns;
    const bool nearer = fast < kNearer * usual_ && fast < usual_ - kLeastChange_ns;
    if (usual_ == 0) {
      usual_ = median;
    } else if (farther || nearer) {
      far_ = farther;  // as before, where the opinion was out of date when the first loads were timed
      usual_ = median;
    }
  }

 private:
  std::array<double, kSamples> samples_{};
  std::size_t count_ = 0;  // since the last opinion
  double usual_ = 0;       // what a load takes at this distance; 0: not known yet
  bool far_;
};

}  // namespace tutti

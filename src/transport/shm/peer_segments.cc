#include "transport/shm/peer_segments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/log.h"
#include "transport/shm/pages.h"

namespace tutti {

void PeerSegments::consider(const Offer& offer) {
  if (offer.segment == 0 || offer.segment > SharedHeap::kMostSegments) return;
  if (offer.segment >= known_.size()) known_.resize(offer.segment + 1);
  Known& known = known_[offer.segment];
  if (known.considered) return;
  known.considered = true;
  if (!open(offer, known)) {
    log_info("buffers of process {} are neither read nor written in place: its memory cannot be opened from here",
             offer.process);
    return;
  }
  publish(*confirmed_, peek(*confirmed_) | std::uint64_t{1} << offer.segment);  // observed by the sender
}

// Opens what a descriptor of another process refers to, if it is memory of this size, without touching it if it is not:
// opening a pipe may wait, and opening a device may do something.
UniqueFd PeerSegments::open_memory(const Offer& offer) {
  const auto is_it = [&offer](int fd) {
    struct stat status {};
    return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
           static_cast<std::uint64_t>(status.st_size) == offer.bytes;
  };
  const std::string theirs = fmt::format("/proc/{}/fd/{}", offer.process, offer.descriptor);
  const UniqueFd found(::open(theirs.c_str(), O_PATH | O_CLOEXEC));
  if (!found || !is_it(found.get())) return {};
  const std::string ours = fmt::format("/proc/self/fd/{}", found.get());
  return UniqueFd(::open(ours.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

bool PeerSegments::open(const Offer& offer, Known& known) {
  if (offer.process == static_cast<std::uint32_t>(::getpid()) && SharedHeap::of_process().made(offer)) {
    // Another rank of this process: its memory is ours.
    known.base = SharedHeap::of_process().base(offer.segment);
    known.bytes = offer.bytes;
    return true;
  }
  const UniqueFd fd = open_memory(offer);
  if (!fd || offer.bytes < sizeof(offer.nonce)) return false;
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_SEAL;
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return false;
  MappedMemory mapping = map_shared(fd.get(), offer.bytes);
  if (!mapping) return false;
  // In another process namespace the number may be somebody else's: only the right memory holds the nonce.
  if (std::memcmp(mapping.data(), &offer.nonce, sizeof(offer.nonce)) != 0) return false;
  known.base = mapping.data();
  known.bytes = offer.bytes;
  mappings_.push_back(std::move(mapping));
  return true;
}

}  // namespace tutti

#pragma once

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "transport/shm/sleepers.h"

namespace tutti {

// The ranks of one host, each with a mapping of its own.
class SleepingHost {
 public:
  explicit SleepingHost(int ranks) {
    SegmentLayout layout;
    layout.members = layout.ranks = static_cast<std::uint32_t>(ranks);
    const Segment made = Segment::create(layout.segment_bytes());
    for (int rank = 0; rank < ranks; ++rank) {
      auto& group = *groups_.emplace_back(std::make_unique<HostGroup>());
      group.layout = layout;
      group.segment = Segment::map(UniqueFd(::dup(made.descriptor())), layout.segment_bytes());
      group.own_area = static_cast<std::uint32_t>(rank);
      for (int member = 0; member < ranks; ++member) {
        group.members.push_back(member);
        group.areas.push_back(static_cast<std::uint32_t>(member));
      }
      sleepers_.push_back(std::make_unique<Sleepers>(group, ranks));
    }
  }

  Sleepers& operator[](int rank) { return *sleepers_[static_cast<std::size_t>(rank)]; }
  SleepWords& words(int rank) {
    const HostGroup& group = *groups_.front();
    return *reinterpret_cast<SleepWords*>(group.segment.data() + group.layout.area(static_cast<std::uint32_t>(rank)) +
                                          group.layout.sleep_words());
  }

 private:
  std::vector<std::unique_ptr<HostGroup>> groups_;
  std::vector<std::unique_ptr<Sleepers>> sleepers_;
};

}  // namespace tutti

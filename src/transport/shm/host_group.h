#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "transport/shm/segment.h"
#include "transport/shm/segment_layout.h"

namespace tutti {

// The ranks that share one segment with this one.
struct HostGroup {
  std::vector<int> members;          // ranks, ascending; this one included
  std::vector<std::uint32_t> areas;  // each member's area in the segment
  std::uint32_t own_area = 0;
  std::vector<int> leader_of;  // of every rank of the communicator: ranks with one leader share memory
  SegmentLayout layout;
  Segment segment;
};

// What a rank needs to find its group.
struct HostGroupRequest {
  // Every rank gives bytes, all get everybody's, by rank; collective over the communicator.
  using Exchange = std::function<std::vector<std::vector<std::byte>>(std::span<const std::byte>)>;

  int rank = 0;
  int ranks = 1;
  std::vector<std::string> hosts;  // by rank; only ranks with equal texts try to share memory
  std::vector<bool> apart;         // by rank: groups by themselves, without a segment; empty: none
  std::vector<std::byte> key;      // 32 bytes that only this communicator's ranks can derive
  std::string directory;           // for a socket file, where the network namespace is not shared; "": none
  SegmentLayout layout;            // agreed; `members` is filled in
  Exchange exchange;
  std::function<bool()> given_up;  // whether the communicator has failed: nobody waits for a leader then
};

// Finds the ranks with which this one can share memory, by really opening the segment of a leader among them: through
// an abstract socket, failing that through a socket file. A rank that reaches nobody is a group by itself. Collective
// over the communicator; blocks; throws Error. In the result all members agree on members and areas.
HostGroup join_host_group(const HostGroupRequest& request);

// For a rank that gives up before it knows who leads: a leader that was further and was killed while it listened cannot
// remove its socket file. Removes those of all ranks below this one.
void remove_socket_files(std::span<const std::byte> key, const std::string& directory, int rank);

}  // namespace tutti

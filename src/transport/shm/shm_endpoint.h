#pragma once

#include <cstddef>
#include <cstdint>

#include "transport/endpoint.h"
#include "transport/shm/segment_layout.h"

namespace tutti {

// Points an endpoint at the lines, credits and slots that two members of a host group share on one connection.
// segment: where the group's segment is mapped.
inline void connect_shared_memory(Endpoint& endpoint, const SegmentLayout& layout, std::byte* segment,
                                  std::uint32_t connection, std::uint32_t own_area, std::uint32_t peer_area) {
  std::byte* own = segment + layout.area(own_area);
  std::byte* peer = segment + layout.area(peer_area);
  endpoint.out = reinterpret_cast<Line*>(own + layout.lines(connection, peer_area));
  endpoint.in = reinterpret_cast<Line*>(peer + layout.lines(connection, own_area));
  endpoint.out_slots = own;
  endpoint.in_slots = peer;
  endpoint.in_slots_bytes = layout.area_bytes();
  endpoint.credit_out = &reinterpret_cast<PaddedWord*>(own + layout.credit(connection, peer_area))->word;
  endpoint.credit_in = &reinterpret_cast<PaddedWord*>(peer + layout.credit(connection, own_area))->word;
  endpoint.progress_in = &reinterpret_cast<PaddedWord*>(peer + layout.progress())->word;
  endpoint.processor_in = reinterpret_cast<const Word*>(peer + layout.processor());
  endpoint.long_call_in = &reinterpret_cast<PaddedWord*>(peer + layout.long_call())->word;
  endpoint.notice_in = reinterpret_cast<const Line*>(peer + layout.output_notice());
  endpoint.confirmed_in = reinterpret_cast<Word*>(peer + layout.confirmed(own_area));
  endpoint.window = layout.window;
  endpoint.places = layout.places(peer_area);
  endpoint.has_places = connection == 0 && layout.has_places();
}

inline Word& progress_word(const SegmentLayout& layout, std::byte* segment, std::uint32_t own_area) {
  return reinterpret_cast<PaddedWord*>(segment + layout.area(own_area) + layout.progress())->word;
}

// The last collective that a member has begun: for whoever wonders why nothing comes from it.
inline Word& started_word(const SegmentLayout& layout, std::byte* segment, std::uint32_t area) {
  return *reinterpret_cast<Word*>(segment + layout.area(area) + layout.started());
}

// The processor, from 1, on which a member was last seen running; 0: it has not said. Only where ranks share
// processors.
inline Word& processor_word(const SegmentLayout& layout, std::byte* segment, std::uint32_t area) {
  return *reinterpret_cast<Word*>(segment + layout.area(area) + layout.processor());
}

// The last long collective that this rank has begun: a line that peers look at only to find out how far it is.
inline Word& long_call_word(const SegmentLayout& layout, std::byte* segment, std::uint32_t own_area) {
  return reinterpret_cast<PaddedWord*>(segment + layout.area(own_area) + layout.long_call())->word;
}

// Where this rank says, when it begins a call, where its output for it lies: see executor/output_notice.h.
inline Line& output_notice(const SegmentLayout& layout, std::byte* segment, std::uint32_t own_area) {
  return *reinterpret_cast<Line*>(segment + layout.area(own_area) + layout.output_notice());
}

// Where this rank confirms to a peer which of its segments it can read.
inline Word& confirmed_word(const SegmentLayout& layout, std::byte* segment, std::uint32_t own_area,
                            std::uint32_t peer_area) {
  return *reinterpret_cast<Word*>(segment + layout.area(own_area) + layout.confirmed(peer_area));
}

}  // namespace tutti

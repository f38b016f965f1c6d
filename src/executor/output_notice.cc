#include "executor/output_notice.h"

#include <algorithm>
#include <cstring>

#include "transport/read_once.h"
#include "transport/shm/peer_segments.h"
#include "transport/shm/shared_heap.h"

namespace tutti {

bool is_mapped(Endpoint& endpoint, std::uint64_t segment) {
  const std::uint64_t bit = std::uint64_t{1} << segment;
  if ((endpoint.confirmed & bit) == 0 && endpoint.confirmed_in != nullptr) {
    endpoint.confirmed = observe(*endpoint.confirmed_in);  // published by PeerSegments::consider() at the peer
  }
  return (endpoint.confirmed & bit) != 0;
}

void describe_output(const Call& call, Notes& notes) {
  if (call.in_place) notes.flags |= Notes::kInPlace;
  const SharedHeap::Location& output = call.lent;
  notes.output_segment = static_cast<std::uint8_t>(output.segment);
  notes.output_offset = output.offset;
  notes.output_missing = static_cast<std::uint16_t>(output.missing);
  notes.output_end = static_cast<std::uint32_t>(output.end / Notes::kEndUnit);
}

void announce_output(Line& notice, const Call& call, std::span<Endpoint> peers) {
  Notes notes;
  if (call.lends_output) {
    describe_output(call, notes);
    const std::uint64_t segment = notes.output_segment;
    if (std::ranges::any_of(
            peers, [segment](Endpoint& peer) { return peer.notice_in != nullptr && !is_mapped(peer, segment); })) {
      notes.flags |= Notes::kOffers;
      const Offer offer = SharedHeap::of_process().offer(segment);
      std::memcpy(notice.payload + sizeof(notes), &offer, sizeof(offer));
    }
  }
  std::memcpy(notice.payload, &notes, sizeof(notes));
  notice.signature = call.signature;
  publish(notice.epoch, call.sequence);  // observed by heard_of_output() at the peers
}

bool heard_of_output(Endpoint& endpoint, const Call& call) {
  if (endpoint.notice_in == nullptr || endpoint.segments == nullptr || endpoint.notes_call == call.sequence) {
    return true;
  }
  const Line& notice = *endpoint.notice_in;
  if (observe(notice.epoch) != call.sequence) return false;  // published by announce_output() at the peer
  // Another call, and maybe a shorter output: somebody is about to find out.
  if (read_once(notice.signature) != call.signature) return true;
  endpoint.notes = read_once_as<Notes>(notice.payload);
  endpoint.notes_call = call.sequence;
  if ((endpoint.notes.flags & Notes::kOffers) != 0) {
    endpoint.segments->consider(read_once_as<Offer>(notice.payload + sizeof(Notes)));
  }
  return true;
}

}  // namespace tutti

#include "transport/tcp/frame_reader.h"

#include <algorithm>
#include <cstring>

namespace tutti {

std::span<std::byte> FrameReader::space() {
  // A payload is read to its end and not beyond: the next message may be posted by the time that its header is read.
  if (in_payload_) return {destination_ + placed_, header_.length - placed_};
  return std::span(staging_).subspan(staged_);
}

const char* FrameReader::filled(std::size_t bytes, FrameSink& sink) {
  finished_large_ = false;
  if (in_payload_) {
    placed_ += bytes;
    if (placed_ == header_.length) finish_payload(sink);
    return nullptr;
  }
  staged_ += bytes;
  std::size_t used = 0;
  while (staged_ - used >= FrameHeader::kBytes) {
    const auto header = FrameHeader::decode(staging_.data() + used);
    if (!header) return "something that is no frame";
    used += FrameHeader::kBytes;
    std::byte* destination = nullptr;
    if (const char* problem = sink.begin(*header, destination)) return problem;
    header_ = *header;
    destination_ = destination;
    placed_ = std::min<std::size_t>(header_.length, staged_ - used);
    if (placed_ > 0) std::memcpy(destination_, staging_.data() + used, placed_);
    used += placed_;
    in_payload_ = true;
    if (placed_ == header_.length) finish_payload(sink);
  }
  // Less than a header is left, or nothing because a payload goes on.
  staged_ -= used;
  if (staged_ > 0 && used > 0) std::memmove(staging_.data(), staging_.data() + used, staged_);
  return nullptr;
}

void FrameReader::finish_payload(FrameSink& sink) {
  in_payload_ = false;
  finished_large_ = header_.length >= kLargePayload;
  sink.finish(header_);
}

}  // namespace tutti

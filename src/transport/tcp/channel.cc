#include "transport/tcp/channel.h"

#include <sys/mman.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/system_error.h"

namespace tutti {
namespace {

// Slots begin on pages of their own: one that was never used costs nothing.
std::size_t slot_stride(std::uint32_t max_message_bytes) {
  constexpr std::size_t kPage = 4096;
  return std::max<std::size_t>(1, (max_message_bytes + kPage - 1) / kPage) * kPage;
}

MappedMemory reserve(std::size_t bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) {
    throw system_error("cannot reserve " + std::to_string(bytes) + " bytes of address space for incoming messages",
                       errno, "raise the limit on virtual memory (ulimit -v) or use smaller chunks");
  }
  // A huge page would back the unused rest of a slot as well.
  ::madvise(address, bytes, MADV_NOHUGEPAGE);
  return {address, bytes};
}

}  // namespace

TcpChannel::TcpChannel(const TcpLimits& limits)
    : window_(limits.window),
      max_message_bytes_(limits.max_message_bytes),
      slot_bytes_(slot_stride(limits.max_message_bytes)),
      lines_(std::make_unique<Line[]>(2 * std::size_t{limits.window})),
      words_(std::make_unique<PaddedWord[]>(3)),
      slots_(reserve(limits.window * slot_stride(limits.max_message_bytes))) {}

void TcpChannel::bind(Endpoint& endpoint) {
  endpoint.out = lines_.get();
  endpoint.in = lines_.get() + window_;
  endpoint.in_slots = slots_.data();
  endpoint.in_slots_bytes = slots_.size();
  endpoint.credit_out = &words_[0].word;
  endpoint.credit_in = &words_[1].word;
  endpoint.taken_in = &words_[2].word;
  endpoint.progress_in = nullptr;
  endpoint.long_call_in = nullptr;
  endpoint.notice_in = nullptr;
  endpoint.segments = nullptr;
  endpoint.window = window_;
}

void TcpChannel::note_published(std::uint64_t sent, const std::byte* slots) {
  assert(sent >= published_ && sent - acknowledged_ <= window_);
  published_ = sent;
  out_slots_ = slots;
}

FrameHeader TcpChannel::begin_message(const std::byte*& payload) {
  const std::uint64_t number = ++begun_;
  const Line& line = lines_[index(number)];
  assert(peek(line.epoch) == number);
  const Descriptor descriptor = Descriptor::unpack(line.descriptor);
  assert(descriptor.length <= max_message_bytes_ && descriptor.way != Way::kWritten);
  switch (descriptor.way) {
    case Way::kSlot:
      payload = out_slots_ + std::size_t{descriptor.slot} * Descriptor::kSlotUnit;
      break;
    case Way::kRead: {
      Place place;
      std::memcpy(&place, line.payload, sizeof place);
      assert(place.segment == Place::kOwnMemory);
      payload = reinterpret_cast<const std::byte*>(place.offset);
      break;
    }
    default:
      payload = line.payload;
  }
  // The line may say more than consumed() has yet.
  note_consumed(line.credit);
  FrameHeader header = credit_frame();
  header.kind = FrameKind::kMessage;
  header.length = descriptor.length;
  header.number = number;
  header.signature = line.signature;
  return header;
}

void TcpChannel::note_consumed(std::uint64_t received) { consumed_ = std::max(consumed_, received); }

bool TcpChannel::owes_credit(bool all) const {
  const std::uint64_t owed = consumed_ - told_;
  return owed > 0 && (all || owed * 2 >= window_);
}

FrameHeader TcpChannel::credit_frame() {
  told_ = consumed_;
  return {.kind = FrameKind::kCredit, .credit = consumed_};
}

const char* TcpChannel::accept(const FrameHeader& header, std::byte*& destination) {
  if (header.credit < acknowledged_) return "an acknowledgement that takes an earlier one back";
  if (header.credit > written_) return "an acknowledgement of a message that it was never sent";
  if (header.kind == FrameKind::kMessage) {
    if (header.length > max_message_bytes_) return "a message longer than all ranks agreed on";
    if (header.number != accepted_ + 1) return "a message out of turn";
    if (header.number > consumed_ + window_) return "more messages than it was given room for";
  }
  if (header.credit > acknowledged_) {
    acknowledged_ = header.credit;
    publish(words_[1].word, acknowledged_);  // observed by refresh_acknowledged()
  }
  if (header.kind != FrameKind::kMessage) return nullptr;
  accepted_ = header.number;
  in_posted_buffer_ =
      posted_.number == header.number && posted_.length == header.length && posted_.signature == header.signature;
  destination = in_posted_buffer_ ? posted_.destination : own_buffer(header);
  return nullptr;
}

void TcpChannel::arrived(const FrameHeader& header) {
  Line& line = lines_[window_ + index(header.number)];
  Descriptor descriptor{.length = header.length};
  if (in_posted_buffer_) {
    descriptor.way = Way::kWritten;
  } else if (header.length > Line::kPayload) {
    descriptor.way = Way::kSlot;
    descriptor.slot = static_cast<std::uint32_t>(index(header.number) * slot_bytes_ / Descriptor::kSlotUnit);
  }
  line.credit = header.credit;
  line.signature = header.signature;
  line.descriptor = descriptor.pack();
  in_posted_buffer_ = false;
  arrived_ = header.number;
  publish(line.epoch, header.number);  // observed by whoever executes the endpoint
}

void TcpChannel::post(std::uint64_t number, std::byte* destination, std::uint32_t length, std::uint64_t signature) {
  if (number <= accepted_) return;
  posted_ = {number, destination, length, signature};
}

std::byte* TcpChannel::withdraw(const FrameHeader* incoming, std::size_t placed) {
  std::byte* const from = posted_.destination;
  posted_ = {};
  if (!in_posted_buffer_) return nullptr;
  in_posted_buffer_ = false;
  if (incoming == nullptr) return nullptr;
  std::byte* const to = own_buffer(*incoming);
  if (placed > 0) std::memcpy(to, from, placed);
  return to;
}

std::byte* TcpChannel::own_buffer(const FrameHeader& header) {
  if (header.length <= Line::kPayload) return lines_[window_ + index(header.number)].payload;
  return slots_.data() + index(header.number) * slot_bytes_;
}

}  // namespace tutti

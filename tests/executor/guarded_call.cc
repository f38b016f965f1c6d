#include "executor/guarded_call.h"

#include <fmt/format.h>

#include <algorithm>

#include "executor/signature.h"
#include "support/reference.h"
#include "transport/shm/shared_heap.h"

namespace tutti {
namespace {

constexpr float kUntouched = -12345;
constexpr float kReused = -54321;

}  // namespace

GuardedBuffer::GuardedBuffer(std::size_t elements, Buffers kind) : elements_(elements) {
  const std::size_t all = elements + 2 * kGuard;
  if (kind == Buffers::kShared) {
    SharedHeap& heap = SharedHeap::of_process();
    shared_ =
        std::shared_ptr<void>(heap.allocate(all * sizeof(float)), [&heap](void* memory) { heap.deallocate(memory); });
    begin_ = static_cast<float*>(shared_.get());
  } else {
    private_.resize(all);
    begin_ = private_.data();
  }
  std::fill_n(begin_, all, kUntouched);
}

bool GuardedBuffer::guards_untouched() const {
  for (std::size_t i = 0; i < kGuard; ++i) {
    if (begin_[i] != kUntouched || begin_[kGuard + elements_ + i] != kUntouched) return false;
  }
  return true;
}

void GuardedBuffer::scribble() { std::fill_n(data(), elements_, kReused); }

bool GuardedBuffer::scribble_untouched() const {
  return std::all_of(begin_ + kGuard, begin_ + kGuard + elements_, [](float value) { return value == kReused; });
}

std::string CallSetup::text() const {
  return fmt::format("{} {} root {} count {} chunk {} channels {}{}{}", name(algorithm->collective), algorithm->name,
                     root, count, chunk_bytes, channels, in_place ? " in place" : "",
                     buffers == Buffers::kShared ? " shared" : "");
}

GuardedCall::GuardedCall(World& world, int rank, const CallSetup& setup, std::uint64_t sequence)
    : world_(world), rank_(rank), setup_(setup), plan_(*setup.algorithm, world.layout(rank)) {
  const Collective collective = setup.algorithm->collective;
  const int ranks = world.ranks();
  const std::size_t inputs = input_elements(collective, rank, ranks, setup.root, setup.count);
  const std::size_t outputs = output_elements(collective, rank, ranks, setup.root, setup.count);
  output_ = std::make_unique<GuardedBuffer>(setup.in_place ? std::max(inputs, outputs) : outputs, setup.buffers);
  out_ = output_->data();
  if (setup.in_place) {
    in_ = out_;
    const std::size_t own = static_cast<std::size_t>(rank) * setup.count;
    if (inputs > 0 && outputs > inputs) in_ += own;
    if (outputs > 0 && inputs > outputs) out_ += own;
  } else {
    input_ = std::make_unique<GuardedBuffer>(inputs, setup.buffers);
    in_ = input_->data();
  }
  for (std::size_t i = 0; i < inputs; ++i) in_[i] = reference_input(rank, i);
  call_.plan = &plan_;
  call_.reduction = {DataType::kF32, kSum, ranks, false, false};
  call_.input = reinterpret_cast<const std::byte*>(in_);
  call_.output = reinterpret_cast<std::byte*>(out_);
  call_.element_bytes = sizeof(float);
  call_.sequence = sequence;
  call_.signature = signature_of(
      {collective, DataType::kF32, ReduceOp::Kind::kSum, static_cast<std::uint32_t>(setup.root), setup.count},
      sequence);
  call_.root = setup.root;
  call_.channels = setup.channels;
  call_.in_place = setup.in_place;
}

void GuardedCall::start() { world_.executor(rank_).start(call_, setup_.count, setup_.chunk_bytes); }

std::string GuardedCall::problem() {
  const std::vector<float> expected =
      reference_output(setup_.algorithm->collective, rank_, world_.ranks(), setup_.root, setup_.count);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (out_[i] != expected[i]) {
      return fmt::format("rank {} element {} of {} is {} and not {}", rank_, i, expected.size(), out_[i], expected[i]);
    }
  }
  if (!output_->guards_untouched()) return fmt::format("rank {}: written around the output", rank_);
  if (input_ == nullptr) return "";
  if (!input_->guards_untouched()) return fmt::format("rank {}: written around the input", rank_);
  for (std::size_t i = 0; i < input_->size(); ++i) {
    if (in_[i] != reference_input(rank_, i)) return fmt::format("rank {}: the input has changed", rank_);
  }
  return "";
}

void GuardedCall::reuse_buffers() {
  output_->scribble();
  if (input_ != nullptr) input_->scribble();
}

void GuardedCall::abandon() {
  reuse_buffers();
  abandoned_ = true;
}

std::string GuardedCall::problem_since() {
  for (const GuardedBuffer* buffer : {output_.get(), input_.get()}) {
    if (buffer == nullptr) continue;
    if (!buffer->guards_untouched()) return fmt::format("rank {}: written around a buffer", rank_);
    if (abandoned_ && buffer == output_.get() && setup_.buffers == Buffers::kShared) continue;
    if (!buffer->scribble_untouched()) return fmt::format("rank {}: written to a buffer of a call that ended", rank_);
  }
  return "";
}

}  // namespace tutti

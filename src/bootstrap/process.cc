#include "bootstrap/process.h"

#include <exception>
#include <mutex>
#include <utility>

#include "base/descriptors.h"
#include "base/fork.h"
#include "base/log.h"

namespace tutti {
namespace {

constexpr long kOfProcess = 4;  // of the event loop, and one that a signal rings

}  // namespace

Process::Process(EventLoop::Driver driver) : loop_(driver), made_in_(fork_generation()) {}

Process::~Process() {
  if (is_this()) return;
  // The threads that they belong to are in the parent.
  static_cast<void>(signal_.release());
  static_cast<void>(writer_.release());
}

void Process::add_reporter(std::weak_ptr<Reporter> reporter, int signal) {
  loop_.post([this, reporter = std::move(reporter)] {
    std::erase_if(reporters_, [](const auto& known) { return known.expired(); });
    reporters_.push_back(reporter);
  });
  if (signal == 0) return;
  const std::lock_guard lock(signal_mutex_);
  if (signal_ != nullptr) return;
  signal_ = std::make_unique<DumpSignal>(loop_, signal, [this] { ask_reporters(); });
}

void Process::ask_reporters() {
  try {
    for (const auto& known : reporters_) {
      writer_->post([known] {
        if (const std::shared_ptr<Reporter> one = known.lock()) one->report_now();
      });
    }
  } catch (const std::exception& error) {
    log_warn("no reports for a signal: {}", error.what());
  }
}

std::string Process::in_other_call(const Reporter& reporter) const {
  constexpr std::uint32_t kShort = 100;  // what is in a call for less goes on
  Reporter::InCall longest{"", kShort};
  for (const auto& known : reporters_) {
    const std::shared_ptr<Reporter> one = known.lock();
    if (!one || one.get() == &reporter) continue;
    if (one->id() == reporter.id()) return "";
    Reporter::InCall call = one->in_call();
    if (!call.text.empty() && call.since_ms >= longest.since_ms) longest = std::move(call);
  }
  return longest.text;
}

bool Process::is_this() const { return made_in_ == fork_generation(); }

std::shared_ptr<Process> Process::get() {
  static std::weak_ptr<Process> current;
  const std::lock_guard lock(process_lock(ProcessLock::kProcess));
  std::shared_ptr<Process> process = current.lock();
  if (!process || !process->is_this()) {
    require_descriptors(kOfProcess, kOfProcess, "the control thread");
    process.reset(new Process(EventLoop::Driver::kThread));
    current = process;
  }
  return process;
}

std::shared_ptr<Process> Process::without_thread() {
  return std::shared_ptr<Process>(new Process(EventLoop::Driver::kCaller));
}

}  // namespace tutti

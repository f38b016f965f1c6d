#include "communicator/communicator_report.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include "base/arithmetic.h"
#include "base/file_size_limit.h"
#include "base/json.h"
#include "base/log.h"
#include "base/system_error.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "bootstrap/host.h"
#include "communicator/activities.h"
#include "communicator/arguments.h"
#include "communicator/statistics_json.h"

namespace tutti {
namespace {

constexpr const char* kFallbackDirectory = "/tmp";
constexpr int kFormat = 1;
constexpr int kMostMembers = 4096;  // that are named one by one
constexpr std::size_t kLongestText = 4096;
constexpr std::size_t kLongestName = 24;  // of a communicator, told to the ranks of another one

// The same on all ranks, and on no other communicator's; says nothing about the secret that it is made from.
std::string public_id(const ControlPlane& control) {
  const std::vector<std::byte> key = control.derive_key("public id of reports");
  std::string id;
  for (std::size_t i = 0; i < 8; ++i) id += fmt::format("{:02x}", std::to_integer<unsigned>(key[i]));
  return id;
}

// Which of the machine's processes a pid names: in two containers, one pid may be two processes. 0: not known.
std::uint64_t pid_namespace() {
  struct stat status {};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

template <class Duration>
void time_field(JsonWriter& json, const char* name, Duration time) {
  if (time.count() > 0) json.field(name, time.count());
}

void write_operation(JsonWriter& json, const OperationRecord& record) {
  const bool collective = record.kind == OperationRecord::Kind::kCollective;
  json.new_line().begin_object();
  json.field(collective ? "sequence" : "transfer", record.number);
  json.field("what", describe(record)).field("phase", name(record.phase));
  if (collective) {
    json.field("signature", fmt::format("{:016x}", record.signature));
  } else {
    json.field("kind", record.kind == OperationRecord::Kind::kSend ? "send" : "recv");
    json.field("peer", record.peer).field("tag", record.tag);
  }
  time_field(json, "issued_ns", record.issued);
  time_field(json, "started_ns", record.started);
  time_field(json, "ended_ns", record.ended);
  if (record.waited_for >= 0) json.field("waits_for", record.waited_for);
  time_field(json, "waited_us", record.waited);
  json.end_object();
}

}  // namespace

std::string describe(const OperationRecord& record) {
  if (record.kind == OperationRecord::Kind::kCollective) return describe(record.shape);
  const bool sending = record.kind == OperationRecord::Kind::kSend;
  return fmt::format("{} {}×{} {} {} tag {}", sending ? "send" : "recv", name(record.shape.type), record.shape.count,
                     sending ? "to" : "from", record.peer < 0 ? "any" : std::to_string(record.peer), record.tag);
}

CommunicatorReport::CommunicatorReport(Parts parts)
    : parts_(std::move(parts)), id_(public_id(parts_.self.control)), process_(parts_.process) {}

std::string CommunicatorReport::to_json(std::string_view reason) const {
  using std::chrono::duration;
  using std::chrono::system_clock;
  const DefaultArithmetic arithmetic;
  JsonWriter json;
  json.begin_object().field("tutti_report", kFormat).field("reason", reason);
  json.key("communicator").begin_object().field("name", parts_.self.name).field("id", id_).end_object();
  json.field("rank", parts_.self.rank)
      .field("ranks", parts_.self.ranks)
      .field("host", host_name())
      .field("pid", ::getpid())
      .field("pid_namespace", pid_namespace());
  json.field("written", duration<double>(system_clock::now().time_since_epoch()).count());
  json.field("written_ns", Clock::now().time_since_epoch().count());

  json.new_line().field("state", parts_.self.health.failed() ? "failed" : "healthy");
  if (parts_.self.health.failed()) {
    const Error failure = parts_.self.health.reason();
    json.key("failure").begin_object().field("code", name(failure.code()));
    json.field("reason", cut_text(failure.what(), kLongestText));
    json.field("peer", failure.peer()).end_object();
  }
  {
    const std::lock_guard lock(stall_mutex_);
    if (!stall_.empty()) json.new_line().field("stall", cut_text(stall_, kLongestText));
  }
  json.new_line().key("left").begin_array();
  for (int r = 0; r < parts_.self.ranks; ++r) {
    const std::uint64_t last = parts_.self.health.left_after(r);
    if (last != Health::kStillHere) json.begin_object().field("rank", r).field("after", last).end_object();
  }
  json.end_array();
  json.new_line().key("members").begin_array();
  for (int r = 0; r < std::min(parts_.self.ranks, kMostMembers); ++r) json.value(parts_.self.control.describe(r));
  json.end_array();
  json.new_line().key("statistics");
  write_statistics(json, parts_.statistics());

  const std::vector<OperationRecord> records = parts_.self.log.records();
  json.new_line().key("pending").begin_array();
  for (const OperationRecord& record : records) {
    if (!has_ended(record.phase)) write_operation(json, record);
  }
  json.end_array();
  json.new_line().key("operations").begin_array();
  for (const OperationRecord& record : records) write_operation(json, record);
  json.end_array().end_object();
  return json.take() + '\n';
}

void CommunicatorReport::try_to_write(const std::string& directory, std::string_view reason) {
  try {
    write(directory, reason);
  } catch (const std::exception& error) {
    log_warn("communicator \"{}\": no report ({}): {}", parts_.self.name, reason, error.what());
  }
}

void CommunicatorReport::write(const std::string& directory, std::string_view reason) {
  const std::string name = fmt::format("tutti-{}-rank{}-pid{}-{}.json", file_name_part(parts_.self.name),
                                       parts_.self.rank, ::getpid(), id_.substr(0, 8));
  if (const int error = write_whole_file(directory, name, to_json(reason))) {
    log_warn("{}; TUTTI_DUMP_DIR chooses the directory",
             system_trouble(fmt::format("cannot write {}/{}", directory, name), error, file_size_advice(error)));
  } else {
    log_warn("wrote {}/{} ({}): tutti doctor reads it", directory, name, reason);
  }
}

void CommunicatorReport::report_now() {
  const std::lock_guard lock(mutex_);
  if (!closed_) try_to_write(parts_.directory.empty() ? kFallbackDirectory : parts_.directory, "signal");
}

void CommunicatorReport::write_failure() {
  if (parts_.directory.empty() || parts_.self.health.used_after_fork()) return;
  const std::lock_guard lock(mutex_);
  if (!closed_ && !std::exchange(failure_written_, true)) try_to_write(parts_.directory, "failure");
}

void CommunicatorReport::write_failure_soon() {
  const std::lock_guard lock(open_mutex_);
  if (process_ == nullptr) return;
  try {
    process_->writer().post([weak = weak_from_this()] {
      if (const auto report = weak.lock()) report->write_failure();
    });
  } catch (const std::exception& error) {
    // A call that is told of the failure writes it.
    log_info("communicator \"{}\": {}", parts_.self.name, error.what());
  }
}

void CommunicatorReport::note_stall(const std::string& text) {
  const std::lock_guard lock(stall_mutex_);
  stall_ = text;
}

Reporter::InCall CommunicatorReport::in_call() const {
  const std::lock_guard lock(open_mutex_);
  if (!open_ || parts_.self.health.failed()) return {};
  const std::vector<Activity> own = activities_of(parts_.self.log.records(), Clock::now().time_since_epoch());
  const auto longest =
      std::ranges::max_element(own, {}, [](const Activity& one) { return one.is_wait() ? one.since_ms : 0; });
  if (longest == own.end() || !longest->is_wait()) return {};
  std::string text = fmt::format("{} of \"{}\"", longest->text, cut_text(parts_.self.name, kLongestName));
  if (longest->waits_for >= 0) text += fmt::format(" and waits for rank {} there", longest->waits_for);
  return {text, longest->since_ms};
}

std::string CommunicatorReport::elsewhere() const {
  const std::lock_guard lock(open_mutex_);
  return process_ != nullptr ? process_->in_other_call(*this) : "";
}

void CommunicatorReport::close() {
  {
    const std::lock_guard lock(open_mutex_);
    open_ = false;
    process_ = nullptr;
  }
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace tutti

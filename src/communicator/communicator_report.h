#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/sync.h"
#include "bootstrap/process.h"
#include "communicator/self.h"
#include "executor/operation_log.h"
#include "tutti/communicator.h"

namespace tutti {

// "send f32×1000 to 3 tag 0", "all_reduce f32×1000 sum".
std::string describe(const OperationRecord& record);

// What a communicator knows of itself on this rank, as one JSON object in a file: when a signal asks for it, and when
// the communicator fails. docs/doctor.md has its members. Any thread; blocks for the file system only. It needs nothing
// that a call holds while it waits.
class CommunicatorReport final : public Reporter, public std::enable_shared_from_this<CommunicatorReport> {
 public:
  struct Parts {
    Self self;
    std::function<Statistics()> statistics;
    std::string directory;       // where a failure is written; "": nowhere
    Process* process = nullptr;  // null: none, calls alone write a failure
  };
  explicit CommunicatorReport(Parts parts);

  void report_now() override;
  const std::string& id() const override { return id_; }
  InCall in_call() const override;
  // The communicator has failed: writes that once, now or on the writer's thread. Never throw.
  void write_failure();
  void write_failure_soon();
  // Of the latest stall, as it was reported.
  void note_stall(const std::string& text);
  // What this rank's process is in on other communicators; "": nothing that is known. On the control thread.
  std::string elsewhere() const;
  // Nothing that this knows is touched from now on. Waits for a file that is being written.
  void close();

  std::string to_json(std::string_view reason) const;

 private:
  // What keeps it from writing is logged.
  void try_to_write(const std::string& directory, std::string_view reason);
  void write(const std::string& directory, std::string_view reason);

  const Parts parts_;
  const std::string id_;
  mutable std::mutex mutex_;  // guards the next two, and one file at a time
  bool closed_ = false;
  bool failure_written_ = false;
  mutable std::mutex open_mutex_;  // guards the next two; held for moments only
  bool open_ = true;               // the log may be read
  Process* process_;
  mutable std::mutex stall_mutex_;  // guards the next
  std::string stall_;
};

}  // namespace tutti

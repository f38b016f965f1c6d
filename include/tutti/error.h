#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "tutti/export.h"
#include "tutti/requirements.h"  // first

namespace tutti {

enum class ErrorCode {
  kInvalidArgument,  // this rank passed something wrong, or destroyed: nothing was sent, the communicator stays usable
  kInvalidSetting,   // an environment variable or Options::config value
  kMismatch,         // ranks disagree on the call, or on a setting that must agree; the message names both sides
  kUnauthorized,     // the other side does not know the job's secret
  kTimeout,          // a deadline passed; the message says who was missing
  kRemote,           // another rank died, left, failed or aborted; peer() names it
  kAborted,          // this rank called abort(), or the call's group was not ended or could not be issued
  kSystem,           // the operating system refused something; the message has errno's text
  kUnsupported,      // a legal request that this build, machine or process (a forked child) cannot serve
  kCallback,         // a callback of a Work threw something that is no Error: its call has ended, and maybe gone well;
                     // or a function of a Store did
};

// "invalid argument", "mismatch" …
TUTTI_API const char* name(ErrorCode code);

// What every public call throws. The message says what was wrong, where, and what to do about it.
class TUTTI_API Error : public std::runtime_error {
 public:
  static constexpr int kNoPeer = -1;

  Error(ErrorCode code, const std::string& message, int peer = kNoPeer)
      : std::runtime_error(message), code_(code), peer_(peer) {}

  ErrorCode code() const { return code_; }
  // The rank that caused it, as far as that is known; kNoPeer where it is not, as of ranks whose calls differ.
  int peer() const { return peer_; }

 private:
  ErrorCode code_;
  int peer_;
};

}  // namespace tutti

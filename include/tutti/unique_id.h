#pragma once

#include <string>

#include "tutti/export.h"
#include "tutti/requirements.h"  // first

namespace tutti {

// Where the ranks of a communicator meet, and the secret by which they know each other. Made by one process, given to
// all ranks by whatever means the job has (MPI broadcast, a file, a store); whoever knows it can join.
class TUTTI_API UniqueId {
 public:
  // An empty id: not valid for joining.
  UniqueId() = default;

  // Opens the root's socket in this process and returns an id with every address under which it can be reached and
  // a new 256-bit secret. The id serves one communicator. Throws Error(kSystem) when no socket can be opened.
  static UniqueId create();

  // Text of printable characters without blanks, at most 1024; parse() throws Error(kInvalidArgument) on anything
  // that to_text() did not write.
  std::string to_text() const { return text_; }
  static UniqueId parse(const std::string& text);

  bool empty() const { return text_.empty(); }

 private:
  std::string text_;
};

}  // namespace tutti

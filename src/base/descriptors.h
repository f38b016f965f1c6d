#pragma once

#include <array>
#include <string>

namespace tutti {

// Numbers 0 to 2 are the program's standard streams, also when it has closed them: whoever prints would write into what
// got such a number since. Moves a descriptor to another number if it has one of these; keeps errno otherwise. Returns
// -1, with errno, and has closed it where there is no other number.
int above_standard_streams(int fd);

// Keeps 0 to 2 from descriptors that other code opens while this lives, and that cannot be moved.
class StandardStreamsTaken {
 public:
  StandardStreamsTaken();
  ~StandardStreamsTaken();
  StandardStreamsTaken(const StandardStreamsTaken&) = delete;
  StandardStreamsTaken& operator=(const StandardStreamsTaken&) = delete;

 private:
  std::array<int, 4> taken_{-1, -1, -1, -1};
};

// How many descriptors this process may still open. Asks the system for each number: for set-up.
long free_descriptors();

// "all 64 descriptors that this process may have are in use: raise the limit (ulimit -Hn), …" for EMFILE, what to do
// about it for ENFILE, else "".
std::string descriptor_advice(int error);

// Raises the soft limit by `more` and some, at most to the hard one. It is there for programs that use select(), or
// that close every number up to it: it is raised when it is reached, and no further than needed, and forked children
// have the program's own limit again. Returns whether it was raised; keeps errno.
bool raise_descriptor_limit(long more);

// Raises the limit where fewer than `needed` can still be opened. Throws Error(kSystem) with what is needed and
// available where it cannot be raised so far.
void require_descriptors(long needed, const std::string& purpose);

}  // namespace tutti

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

// Throws Error(kSystem) with what is needed and available where fewer than `needed` can still be opened. `wished`: how
// many may be opened later, such as connections to all other ranks.
//
// Raises the soft limit where fewer than that are left, by as much as is missing and some, at most to the hard one. It
// protects programs that use select(), or that close every number up to it: so it is raised no further, and forked
// children have the program's own limit again.
void require_descriptors(long needed, long wished, const std::string& purpose);

}  // namespace tutti

#pragma once

#include <string>

namespace tutti {

// How many descriptors this process may still open. Asks the system for each number: for set-up.
long free_descriptors();

// "all 64 descriptors that this process may have are in use: raise the limit (ulimit -Hn), …" for EMFILE, what to do
// about it for ENFILE, else "".
std::string descriptor_advice(int error);

// Raises the soft limit to the hard one: sockets to many ranks need many, and the soft limit is there for programs that
// use select(). Throws Error(kSystem) with what is needed and available when fewer than `needed` can still be opened.
void require_descriptors(long needed, const std::string& purpose);

}  // namespace tutti

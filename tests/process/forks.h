#pragma once

#include <string>

#include "tutti/tutti.h"

namespace tutti {

// What a rank does with fork(): each function forks children, waits for those that end, and throws std::runtime_error
// when one of them finds something wrong, crashes or hangs.

// Every call on the communicator fails in a child, at once; destroying it and ending the process works there; memory of
// allocate() can be read. The parent's memory is not changed by anything that the child does with it.
void check_forked_child(Communicator& world);
// The same from a thread while another is in the midst of calls, again and again.
void check_forks_amid_calls(Communicator& world, int forks);
// A child makes a communicator of its own with the children of the other ranks, who meet at this address, and uses it.
void check_communicator_of_children(const std::string& meeting_place);
// A child that does nothing for so long and outlives its parent; returns its process id.
int fork_sleeper(int milliseconds);

}  // namespace tutti

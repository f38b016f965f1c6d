#pragma once

#include <string>

namespace tutti {

// A program that a rank starts inherits the rank's variables: it seems to be that rank once more, in a job that has met
// already. "process 123 (train), which has started this one, is a rank itself …" if a process above this one has a
// control thread of this library, else "". For messages: reads /proc, and what cannot be read says nothing.
std::string inherited_variables_hint();

}  // namespace tutti

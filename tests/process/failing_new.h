#pragma once

namespace tutti {

// From now on the n-th allocation by operator new in this process throws std::bad_alloc; counted from 1, in all
// threads.
void start_failing_new(int nth);
// Whether one did. Counts no more.
bool stop_failing_new();

}  // namespace tutti

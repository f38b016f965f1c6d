#pragma once

#include <cstdint>
#include <mutex>

#include "base/sync.h"

namespace tutti {

// What the library does about fork(): a child has the memory of its parent but none of its threads. It gets no locked
// lock, no open socket (open_sockets.h), and everything that was made before knows so. Only fork() of the C library is
// noticed; a child made by vfork() or posix_spawn() runs another program and keeps nothing.

// How many forks lie behind this process since the library was loaded: an object that keeps the number it was made
// under can tell whether it belongs to a parent. Any thread.
std::uint32_t fork_generation();

// Closes a descriptor that was opened under this generation. A socket from before a fork was closed when the child
// began, and its number may be another descriptor's by now: then nothing happens.
void close_descriptor(int fd, std::uint32_t made_in);

// The locks of the few objects that all of a process shares. fork() waits for them, so that a child finds them free and
// what they guard whole. Where one is held while another is taken, they are taken in this order.
enum class ProcessLock { kPendingRoots, kProcess, kRegistrations, kSharedHeap, kDumpSignal, kDescriptorLimit };
std::mutex& process_lock(ProcessLock which);

// Runs `action` in every child that is forked from now on, before anything else there and under all of these locks.
// REQUIRES: it takes no lock, never throws, and leaves the parent's memory safe where the child may have no descriptor
// and no memory.
void at_every_fork(void (*action)());

// Sets a word to `value` in every child that is forked while this object lives. Any thread.
class MarkedAtFork {
 public:
  MarkedAtFork(Word& word, std::uint64_t value);
  ~MarkedAtFork();
  MarkedAtFork(const MarkedAtFork&) = delete;
  MarkedAtFork& operator=(const MarkedAtFork&) = delete;

 private:
  Word& word_;
};

}  // namespace tutti

#pragma once

#include <thread>

namespace tutti {

// The expensive half of an order between a store and a later load that two sides need: one side, which is called
// often, stores and then looks at a word with glance(); the other, which is called rarely, changes the word, calls
// settle_all_processors(), and then looks for what the first one stores. At least one of them sees the other.
//
// Works between all processes that have called join_store_barrier(). Any thread.

// Once for each process; later calls return what the first did. False: the system does not do this, or does not let
// this process. The first call takes some 10 ms in a process that has threads.
bool join_store_barrier();

// Every processor that runs a thread of a process that joined has done all its stores and begun none of its later
// loads. False: it could not be done. A few microseconds.
bool settle_all_processors();

// Joins while something else is done, from construction to destruction; at once in a process that has no threads yet.
class JoiningStoreBarrier {
 public:
  JoiningStoreBarrier();
  ~JoiningStoreBarrier();
  JoiningStoreBarrier(const JoiningStoreBarrier&) = delete;
  JoiningStoreBarrier& operator=(const JoiningStoreBarrier&) = delete;

 private:
  std::thread thread_;
};

}  // namespace tutti

#include "tutti/memory.h"

#include "transport/shm/shared_heap.h"

namespace tutti {

void* allocate(std::size_t bytes) { return SharedHeap::of_process().allocate(bytes); }

void deallocate(void* pointer) { SharedHeap::of_process().deallocate(pointer); }

}  // namespace tutti

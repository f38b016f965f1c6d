#pragma once

#include <cstddef>

#include "tutti/export.h"
#include "tutti/requirements.h"  // first

namespace tutti {

// Host memory that the other ranks of a host can read where it lies, so that collectives on it need no copy. Works
// before any communicator exists and for all of them. Aligned to 4096 bytes, zero-filled when new.
// Throws Error(kSystem) that says how much was asked for and what is available.
//
// Peers also write into it while a call has it as its output. After a call that failed or was aborted its contents are
// undefined, and may go on changing until shrink() or destroy() of that communicator has returned: put nothing new
// there before. From then on it is the caller's alone, whatever a rank that was given up still does. (Where other ranks
// are threads of this process, until they have all done so.) Freeing it is fine at any time: it is not handed out again
// while a peer may write there.
TUTTI_API void* allocate(std::size_t bytes);
// REQUIRES: a pointer from allocate(), or null; no call that uses it is pending.
TUTTI_API void deallocate(void* pointer);

// While it lives, memory of the caller's own counts as memory of allocate(): see register_memory(). Moved, never
// copied. One thread at a time.
class TUTTI_API Registration {
 public:
  Registration() = default;
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  // As unregister(), but what that would throw is logged.
  ~Registration();

  explicit operator bool() const { return pages_ != nullptr; }
  // The whole pages that were registered, and how many bytes they have.
  void* data() const { return pages_; }
  std::size_t bytes() const { return bytes_; }

  // Makes the memory private again, with what it holds. Nothing happens without memory.
  // REQUIRES: no call that uses it is pending, and no other thread writes there meanwhile.
  // Throws Error(kInvalidArgument) when it was freed or unmapped before: what lies there now is not touched, and the
  // registration has ended. Throws Error(kSystem) when there is not enough memory: it stays registered.
  void unregister();

 private:
  friend Registration register_memory(void* memory, std::size_t bytes);
  Registration(void* pages, std::size_t bytes) : pages_(pages), bytes_(bytes) {}

  void* pages_ = nullptr;
  std::size_t bytes_ = 0;
};

// Lets the other ranks of the host use memory that the caller has already, of malloc, new or a private anonymous mmap,
// where it lies. Pages of shared memory with the same contents take the place of the whole pages inside
// [memory, memory + bytes), at the same address. The bytes before the first and behind the last stay private, and
// travel as they did; a buffer may begin and end there. It takes as long as copying the memory, which is needed twice
// meanwhile.
//
// REQUIRES, until the registration has ended: the memory is not freed (unregister first), not resized, and not
// registered with a device driver, whose pages these would no longer be. No other thread writes there during the call.
// A forked child sees what the parent puts there until it writes there itself. What mlock, mbind or madvise said about
// the pages is lost; they come from the memory nearest to the calling thread, like those of allocate(). Freed memory
// that is used by a call is noticed when other memory lies there: the call goes another way and a warning says so. That
// look cannot find everything; with TUTTI_CHECK=memory every call asks the kernel, and fails.
//
// Throws Error(kInvalidArgument) for memory that is null, too short to have a whole page, not there, not writable, not
// private (shared or file mappings, memory of allocate()), or registered already; Error(kSystem) when there is not
// enough memory. The message says why and what to do; nothing has changed then. Empty where no memory can be shared.
[[nodiscard]] TUTTI_API Registration register_memory(void* memory, std::size_t bytes);

}  // namespace tutti

#include "tutti/memory.h"

#include <utility>

#include "base/log.h"
#include "base/only_errors.h"
#include "transport/shm/registered_memory.h"
#include "transport/shm/shared_heap.h"
#include "tutti/error.h"

namespace tutti {

void* allocate(std::size_t bytes) {
  return only_errors([&] { return SharedHeap::of_process().allocate(bytes); });
}

void deallocate(void* pointer) { SharedHeap::of_process().deallocate(pointer); }

Registration register_memory(void* memory, std::size_t bytes) {
  const RegisteredMemory::Pages pages = only_errors([&] { return RegisteredMemory::of_process().add(memory, bytes); });
  return {pages.begin, pages.bytes};
}

Registration::Registration(Registration&& other) noexcept
    : pages_(std::exchange(other.pages_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  const Registration ended(std::move(*this));
  std::swap(pages_, other.pages_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Registration::~Registration() {
  try {
    unregister();
  } catch (const std::exception& error) {
    log_warn("{}", error.what());
  }
}

void Registration::unregister() {
  if (pages_ == nullptr) return;
  auto* const pages = static_cast<std::byte*>(pages_);
  try {
    RegisteredMemory::of_process().remove(pages);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    pages_ = nullptr;
    bytes_ = 0;
    throw;
  }
  pages_ = nullptr;
  bytes_ = 0;
}

}  // namespace tutti

#pragma once

namespace tutti::perf {

// Where buffers come from: malloc, tutti::allocate, or malloc and then tutti::register_memory.
enum class BufferKind { kPrivate, kLibrary, kRegistered };

// As the command line says it.
constexpr const char* name(BufferKind kind) {
  switch (kind) {
    case BufferKind::kPrivate:
      return "private";
    case BufferKind::kLibrary:
      return "library";
    case BufferKind::kRegistered:
      return "registered";
  }
  return "";
}

}  // namespace tutti::perf

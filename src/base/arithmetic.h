#pragma once

#include <cstdint>

#if !defined(__SSE__) && !defined(__aarch64__)
#include <cfenv>
#endif

namespace tutti {

// While it lives, this thread computes with floats as the language's defaults say: it rounds to nearest, keeps
// subnormal numbers, and traps nowhere. Then the thread has the mode and the sticky flags that it had before. Programs
// and the libraries that they load change the mode of single threads; what ranks compute must not depend on that.
//
// Costs a few nanoseconds where the mode is the usual one. One thread; neither blocks nor allocates. Must not be alive
// while code of the program runs.
class DefaultArithmetic {
 public:
#if defined(__SSE__)
  DefaultArithmetic() : before_(control()) {
    if ((before_ & kModes) != kDefault) set_control((before_ & ~kModes) | kDefault);
  }
  ~DefaultArithmetic() {
    if (control() != before_) set_control(before_);  // the mode, or a flag that was raised meanwhile
  }
#elif defined(__aarch64__)
  DefaultArithmetic() : before_(control()), flags_(flags()) {
    if (before_ != 0) set_control(0);
  }
  ~DefaultArithmetic() {
    if (before_ != 0) set_control(before_);
    if (flags() != flags_) set_flags(flags_);
  }
#else
  DefaultArithmetic() {
    std::fegetenv(&before_);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultArithmetic() { std::fesetenv(&before_); }
#endif
  DefaultArithmetic(const DefaultArithmetic&) = delete;
  DefaultArithmetic& operator=(const DefaultArithmetic&) = delete;

  // For good: threads of the library, which begin in the mode of the thread that starts them.
#if defined(__SSE__)
  static void keep() { set_control((control() & ~kModes) | kDefault); }
#elif defined(__aarch64__)
  static void keep() { set_control(0); }
#else
  static void keep() { std::fesetenv(FE_DFL_ENV); }
#endif

 private:
#if defined(__SSE__)
  // MXCSR: six sticky flags, then what is treated as zero, six masks, rounding, and what flushes to zero.
  static constexpr std::uint32_t kModes = 0xffc0;
  static constexpr std::uint32_t kDefault = 0x1f80;

  static std::uint32_t control() {
    std::uint32_t value;
    asm volatile("stmxcsr %0" : "=m"(value) : : "memory");
    return value;
  }
  static void set_control(std::uint32_t value) { asm volatile("ldmxcsr %0" : : "m"(value) : "memory"); }

  const std::uint32_t before_;
#elif defined(__aarch64__)
  static std::uint64_t control() {
    std::uint64_t value;
    asm volatile("mrs %0, fpcr" : "=r"(value) : : "memory");
    return value;
  }
  static void set_control(std::uint64_t value) { asm volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
  static std::uint64_t flags() {
    std::uint64_t value;
    asm volatile("mrs %0, fpsr" : "=r"(value) : : "memory");
    return value;
  }
  static void set_flags(std::uint64_t value) { asm volatile("msr fpsr, %0" : : "r"(value) : "memory"); }

  const std::uint64_t before_;
  const std::uint64_t flags_;
#else
  std::fenv_t before_;
#endif
};

}  // namespace tutti

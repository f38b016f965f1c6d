#pragma once

// What a program, or a library that it loads, may do to the floating-point mode of a thread.

#include <cfenv>
#include <string>
#include <vector>

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace tutti {

struct FloatMode {
  std::string name;
  int rounding = FE_TONEAREST;
  bool flushes = false;  // subnormal operands and results become zero
  int traps = 0;         // exceptions that end the process
};

inline std::vector<FloatMode> float_modes() {
  return {{"FlushesToZero", FE_TONEAREST, true},
          {"RoundsUp", FE_UPWARD},
          {"RoundsDown", FE_DOWNWARD},
          {"Truncates", FE_TOWARDZERO},
          {"Traps", FE_TONEAREST, false, FE_ALL_EXCEPT},
          {"FlushesAndRoundsUp", FE_UPWARD, true}};
}

// The calling thread has the mode while this lives.
class InFloatMode {
 public:
  explicit InFloatMode(const FloatMode& mode) {
    std::fegetenv(&before_);
    std::fesetround(mode.rounding);
#if defined(__SSE__)
    if (mode.flushes) _mm_setcsr(_mm_getcsr() | 0x8040);
#elif defined(__aarch64__)
    if (mode.flushes) {
      unsigned long control;
      asm volatile("mrs %0, fpcr" : "=r"(control));
      asm volatile("msr fpcr, %0" : : "r"(control | 1ul << 24));
    }
#endif
    std::feclearexcept(FE_ALL_EXCEPT);
    if (mode.traps != 0) feenableexcept(mode.traps);
  }
  ~InFloatMode() { std::fesetenv(&before_); }

 private:
  std::fenv_t before_;
};

// Everything that the mode consists of, and the flags.
inline unsigned long float_state() {
#if defined(__SSE__)
  return _mm_getcsr();
#elif defined(__aarch64__)
  unsigned long control, flags;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  asm volatile("mrs %0, fpsr" : "=r"(flags));
  return control << 32 | flags;
#else
  return static_cast<unsigned long>(std::fegetround()) << 16 |
         static_cast<unsigned long>(std::fetestexcept(FE_ALL_EXCEPT));
#endif
}

}  // namespace tutti

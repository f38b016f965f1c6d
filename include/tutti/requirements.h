#pragma once

// What a compiler must offer for these headers. Every one of them includes this first: one line says what is missing,
// instead of hundreds that follow from it. The #include of a file that is not there ends the compilation.
#if !defined(__cplusplus) || __cplusplus < 202002L
#error "tutti needs C++20: compile with -std=c++20 (CMake: target_compile_features(program PRIVATE cxx_std_20))"
#include "tutti/stop: C++20 is needed"
#elif !defined(__cpp_exceptions)
#error "tutti reports errors as exceptions: compile without -fno-exceptions"
#include "tutti/stop: exceptions are needed"
#endif

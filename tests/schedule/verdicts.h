#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

#include "schedule/verifier.h"

namespace tutti {

inline testing::AssertionResult is_right(const Verdict& verdict) {
  return verdict.right ? testing::AssertionSuccess() : testing::AssertionFailure() << verdict.counterexample;
}

// The counterexample says all of these things.
inline testing::AssertionResult is_wrong(const Verdict& verdict, std::initializer_list<std::string_view> words) {
  if (verdict.right) return testing::AssertionFailure() << "nothing was found";
  for (const std::string_view word : words) {
    if (verdict.counterexample.find(word) == std::string::npos) {
      return testing::AssertionFailure() << "no \"" << word << "\" in: " << verdict.counterexample;
    }
  }
  return testing::AssertionSuccess();
}

}  // namespace tutti

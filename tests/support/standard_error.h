#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "base/handles.h"

namespace tutti {

// What is written to standard error while this lives; it can be read meanwhile.
class StandardError {
 public:
  StandardError() : before_(::dup(STDERR_FILENO)), file_(::memfd_create("stderr", MFD_CLOEXEC)) {
    std::fflush(stderr);
    EXPECT_EQ(::dup2(file_.get(), STDERR_FILENO), STDERR_FILENO);
  }
  ~StandardError() {
    std::fflush(stderr);
    ::dup2(before_.get(), STDERR_FILENO);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;

  std::string text() const {
    std::string text;
    std::array<char, 4096> buffer;
    while (true) {
      const ssize_t bytes = ::pread(file_.get(), buffer.data(), buffer.size(), static_cast<off_t>(text.size()));
      if (bytes <= 0) return text;
      text.append(buffer.data(), static_cast<std::size_t>(bytes));
    }
  }
  // The whole lines that have this part.
  std::vector<std::string> lines_with(const std::string& part) const {
    std::vector<std::string> lines;
    const std::string all = text();
    for (std::size_t begin = 0, end; (end = all.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const std::string line = all.substr(begin, end - begin);
      if (line.find(part) != std::string::npos) lines.push_back(line);
    }
    return lines;
  }

  // Until the condition, on what is written, holds; false: it does not in a generous time.
  template <class Condition>
  static bool await(Condition condition) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > give_up) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

 private:
  UniqueFd before_;
  UniqueFd file_;
};

}  // namespace tutti

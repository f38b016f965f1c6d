#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tutti {

// The arguments of one command, taken out one by one; what is left over at the end is a mistake. Every mistake throws
// Error(kInvalidArgument) that shows the usage.
class Arguments {
 public:
  // "--name=value" is "--name value".
  Arguments(std::span<const std::string_view> arguments, std::string_view command, std::string_view usage);

  // Whether "--name" is there.
  bool flag(std::string_view name);
  // The word after "--name", if that is there.
  std::optional<std::string_view> option(std::string_view name);
  std::optional<long> number(std::string_view name, long least, long most);
  // "A..B" or "A".
  struct Range {
    long first;
    long last;
  };
  std::optional<Range> range(std::string_view name, long least, long most);
  void done() const;

  [[noreturn]] void reject(const std::string& why) const;

 private:
  long parse(std::string_view name, std::string_view word, long least, long most) const;

  std::vector<std::string_view> left_;
  std::string_view command_;
  std::string_view usage_;
};

}  // namespace tutti

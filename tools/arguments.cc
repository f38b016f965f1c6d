#include "arguments.h"

#include <algorithm>
#include <charconv>

#include "tutti/error.h"

namespace tutti {

Arguments::Arguments(std::span<const std::string_view> arguments, std::string_view command, std::string_view usage)
    : command_(command), usage_(usage) {
  for (const std::string_view word : arguments) {
    const std::size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string_view::npos) {
      left_.push_back(word);
      continue;
    }
    left_.push_back(word.substr(0, equals));
    left_.push_back(word.substr(equals + 1));
  }
}

bool Arguments::flag(std::string_view name) {
  const auto at = std::find(left_.begin(), left_.end(), name);
  if (at == left_.end()) return false;
  left_.erase(at);
  return true;
}

std::optional<std::string_view> Arguments::option(std::string_view name) {
  const auto at = std::find(left_.begin(), left_.end(), name);
  if (at == left_.end()) return std::nullopt;
  if (at + 1 == left_.end()) reject(std::string(name) + " needs a value");
  const std::string_view value = *(at + 1);
  left_.erase(at, at + 2);
  return value;
}

std::optional<long> Arguments::number(std::string_view name, long least, long most) {
  const std::optional<std::string_view> word = option(name);
  if (!word) return std::nullopt;
  return parse(name, *word, least, most);
}

std::optional<Arguments::Range> Arguments::range(std::string_view name, long least, long most) {
  const std::optional<std::string_view> word = option(name);
  if (!word) return std::nullopt;
  const std::size_t dots = word->find("..");
  if (dots == std::string_view::npos) {
    const long only = parse(name, *word, least, most);
    return Range{only, only};
  }
  const Range range{parse(name, word->substr(0, dots), least, most), parse(name, word->substr(dots + 2), least, most)};
  if (range.first > range.last) reject(std::string(name) + " is an empty range: \"" + std::string(*word) + "\"");
  return range;
}

void Arguments::done() const {
  if (!left_.empty()) reject("cannot make sense of \"" + std::string(left_.front()) + "\"");
}

void Arguments::reject(const std::string& why) const {
  throw Error(ErrorCode::kInvalidArgument, why + "; usage: tutti " + std::string(command_) + " " + std::string(usage_));
}

long Arguments::parse(std::string_view name, std::string_view word, long least, long most) const {
  long value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc{} || end != word.data() + word.size() || value < least || value > most) {
    reject(std::string(name) + " must be from " + std::to_string(least) + " to " + std::to_string(most) + ", not \"" +
           std::string(word) + "\"");
  }
  return value;
}

}  // namespace tutti

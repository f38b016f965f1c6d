#include "validators.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/text.h"
#include "schedule/algorithm.h"

namespace tutti {
namespace {

std::optional<long> parse(std::string_view text, long least, long most) {
  const auto value = whole_number<long>(text);
  return value && least <= *value && *value <= most ? value : std::nullopt;
}

}  // namespace

CLI::Validator whole_number_in(long least, long most) {
  return CLI::Validator(
      [=](const std::string& text) {
        return parse(text, least, most) ? std::string()
                                        : fmt::format("must be from {} to {}, not \"{}\"", least, most, text);
      },
      fmt::format("{}..{}", least, most));
}

NumberRange number_range(const std::string& text) {
  const std::size_t dots = text.find("..");
  const std::string_view all = text;
  const std::string_view last = dots == std::string::npos ? all : all.substr(dots + 2);
  return {whole_number<long>(all.substr(0, dots)).value_or(0), whole_number<long>(last).value_or(0)};
}

CLI::Validator range_in(long least, long most) {
  return CLI::Validator(
      [=](const std::string& text) {
        const NumberRange range = number_range(text);
        const bool good = least <= range.first && range.first <= range.last && range.last <= most;
        return good ? std::string()
                    : fmt::format("must be A or A..B with numbers from {} to {}, not \"{}\"", least, most, text);
      },
      "A..B");
}

CLI::Validator byte_size() {
  return CLI::Validator(
      [](std::string& text) {
        const std::string units = "KMG";
        const std::size_t unit = text.empty() ? std::string::npos : units.find(text.back());
        const int shift = unit == std::string::npos ? 0 : 10 * static_cast<int>(unit + 1);
        const auto number =
            whole_number<std::uint64_t>(std::string_view(text).substr(0, text.size() - (shift > 0 ? 1 : 0)));
        if (!number || *number >> (63 - shift) != 0) {
          return fmt::format("must be a number of bytes, with K, M or G behind it or nothing, not \"{}\"", text);
        }
        text = std::to_string(*number << shift);
        return std::string();
      },
      "SIZE", "byte_size");
}

CLI::Validator collective_name() {
  std::vector<std::string> names;
  for (int c = 0; c < kCollectives; ++c) names.emplace_back(name(static_cast<Collective>(c)));
  return CLI::IsMember(names);
}

}  // namespace tutti

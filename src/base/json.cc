#include "base/json.h"

#include <fmt/format.h>

#include <cmath>

#include "base/utf8.h"

namespace tutti {
JsonWriter& JsonWriter::key(std::string_view name) {
  separate();
  quote(name);
  text_ += ':';
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  separate();
  quote(text);
  comma_pending_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  return raw(std::isfinite(number) ? fmt::format("{}", number) : std::string("null"));
}

JsonWriter& JsonWriter::open(char bracket) {
  separate();
  text_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::close(char bracket) {
  comma_pending_ = false;
  separate();
  text_ += bracket;
  comma_pending_ = true;
  return *this;
}

JsonWriter& JsonWriter::raw(std::string_view text) {
  separate();
  text_ += text;
  comma_pending_ = true;
  return *this;
}

void JsonWriter::separate() {
  if (comma_pending_) text_ += ',';
  if (line_pending_) text_ += '\n';
  comma_pending_ = line_pending_ = false;
}

void JsonWriter::quote(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    const std::size_t bytes = character_bytes(text);
    const char c = text.front();
    if (bytes == 0) {
      text_ += "\uFFFD";
    } else if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      text_ += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      text_ += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  text_ += '"';
}

}  // namespace tutti

#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace tutti {

// Writes one JSON text, value after value. It is always valid JSON: bytes of a text that are no UTF-8 become U+FFFD,
// numbers that JSON does not have become null. One per text, on the stack.
class JsonWriter {
 public:
  JsonWriter& begin_object() { return open('{'); }
  JsonWriter& end_object() { return close('}'); }
  JsonWriter& begin_array() { return open('['); }
  JsonWriter& end_array() { return close(']'); }
  // Of the next value, in an object.
  JsonWriter& key(std::string_view name);

  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(double number);
  JsonWriter& value(bool flag) { return raw(flag ? "true" : "false"); }
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& value(T number) { return raw(std::to_string(number)); }
  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }
  // A line break before the next value: for whoever reads it without a tool.
  JsonWriter& new_line() {
    line_pending_ = true;
    return *this;
  }

  std::string take() { return std::move(text_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& close(char bracket);
  JsonWriter& raw(std::string_view text);
  void separate();
  void quote(std::string_view text);

  std::string text_;
  bool comma_pending_ = false;
  bool line_pending_ = false;
};

}  // namespace tutti

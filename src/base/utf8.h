#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

// How many bytes the UTF-8 character at the beginning has; 0: it is none. REQUIRES: a text that is not empty.
std::size_t character_bytes(std::string_view text);

// A text of somebody else as it may be shown: what steers a terminal (control characters, also those of Latin-1, and
// those that turn the direction of writing) becomes a blank, a byte that is no UTF-8 a question mark.
std::string printable(std::string_view text);

}  // namespace tutti

#pragma once

#include <string>
#include <string_view>

namespace tutti {

// Writes a file that appears whole or not at all, readable by its owner alone; one of the same name is replaced. Blocks
// for the file system. Returns 0, or the errno of what failed; then nothing is left behind.
int write_whole_file(const std::string& directory, const std::string& name, std::string_view contents);

// The text with everything that is no letter, digit, dot, dash or underscore replaced, no dot in front, cut: a part of
// a file's name.
std::string file_name_part(std::string_view text);

}  // namespace tutti

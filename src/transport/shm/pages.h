#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/handles.h"

namespace tutti {

// Pages of shared memory, and the huge ones among them.

// What one entry of a page table of the second level covers where pages have 4096 bytes. Elsewhere it is only an
// alignment.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t page_size();

constexpr std::size_t round_down(std::size_t value, std::size_t unit) { return value / unit * unit; }
constexpr std::size_t round_up(std::size_t value, std::size_t unit) { return round_down(value + unit - 1, unit); }

// Whether the kernel makes shared memory of huge pages: never, where it is advised to, or always. It does not unless
// its administrator has said so.
enum class HugePages { kNever, kOnAdvice, kAlways };
HugePages shared_huge_pages();  // read once
// What /sys/kernel/mm/transparent_hugepage/shmem_enabled says, and the file for pages of 2 MiB alone, which wins unless
// it says "inherit". Empty: there is no such file.
HugePages shared_huge_pages(std::string_view all_sizes, std::string_view this_size);
// One line: what it is, and how to change it.
std::string describe(HugePages pages);

// Maps shared memory where its own huge pages can be mapped as such, if it is long enough to have some. No mapping:
// errno says why.
MappedMemory map_shared(int fd, std::size_t bytes);

}  // namespace tutti

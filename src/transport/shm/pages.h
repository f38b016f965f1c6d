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

// Where pages of shared memory come from.
struct PageSource {
  int fd = -1;
  std::size_t offset = 0;
};
// Puts pages in place of what is mapped at this address, in one step, huge ones where the kernel gives any. False: it
// cannot be done, errno says why, and some kernels have taken away what was there.
bool map_over(void* address, std::size_t bytes, PageSource source);
// The same where pages of `old` lie, which are still there when it cannot be done. Where the kernel gives neither, the
// process ends.
bool replace_pages(void* address, std::size_t bytes, PageSource fresh, PageSource old);
// Gives the memory of these pages back to the system: they are zero from now on, and their addresses stay.
void punch_hole(PageSource source, std::size_t bytes);

// Maps shared memory where its own huge pages can be mapped as such, if it is long enough to have some; with -1, new
// memory that only this process and what it forks have. No mapping: errno says why.
MappedMemory map_shared(int fd, std::size_t bytes);

}  // namespace tutti

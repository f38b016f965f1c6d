#pragma once

#include <cstddef>
#include <span>

namespace tutti {

// Fills with bytes that nobody can guess. Throws Error(kSystem) where the system gives none: libsodium's own function
// would end the process.
void fill_randomly(std::span<std::byte> bytes);

}  // namespace tutti

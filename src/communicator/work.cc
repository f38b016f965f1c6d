#include "tutti/work.h"

namespace tutti {

std::uint64_t Work::sequence() const { return sequence_; }
int Work::source() const { return source_; }

}  // namespace tutti

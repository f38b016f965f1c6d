#pragma once

namespace tutti {

// Where a call runs. The default is the calling thread: the call returns when its result is there.
class Stream {
 public:
  constexpr Stream() = default;
};

}  // namespace tutti

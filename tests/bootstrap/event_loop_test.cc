#include "bootstrap/event_loop.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "tutti/error.h"

namespace tutti {
namespace {

TEST(EventLoop, HandsOverWhatACallThrows) {
  EventLoop loop;
  EXPECT_THROW(loop.call([] { throw std::runtime_error("no"); }), Error);
  bool ran = false;
  loop.call([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(EventLoop, SaysThatADescriptorCannotBeWatched) {
  EventLoop loop;
  constexpr int kNotOpen = 1 << 20;
  try {
    loop.call([&] { const Watch watch(loop, UniqueFd(kNotOpen)); });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kSystem);
    EXPECT_NE(std::string(error.what()).find("EBADF"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace tutti

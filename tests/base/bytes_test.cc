#include "base/bytes.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "base/system_error.h"

namespace tutti {
namespace {

TEST(Bytes, ReadBackWhatWasWritten) {
  ByteWriter writer;
  writer.u8(0xfe);
  writer.u16(0x1234);
  writer.u32(0xdeadbeef);
  writer.u64(0x0102030405060708);
  writer.text("rank");
  writer.text("");
  const std::vector<std::byte> bytes = writer.take();
  EXPECT_EQ(bytes[1], std::byte{0x34}) << "little endian";
  ByteReader reader(bytes, "the message");
  EXPECT_EQ(reader.u8(), 0xfe);
  EXPECT_EQ(reader.u16(), 0x1234);
  EXPECT_EQ(reader.u32(), 0xdeadbeef);
  EXPECT_EQ(reader.u64(), 0x0102030405060708u);
  EXPECT_EQ(reader.text(4), "rank");
  EXPECT_EQ(reader.text(0), "");
  EXPECT_NO_THROW(reader.finish());
}

TEST(Bytes, RefuseEveryTruncation) {
  ByteWriter writer;
  writer.u64(1);
  writer.text("something");
  const std::vector<std::byte> bytes = writer.take();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    const std::span<const std::byte> cut(bytes.data(), size);
    ByteReader reader(cut, "the message");
    EXPECT_THROW(
        {
          reader.u64();
          reader.text(100);
        },
        Error)
        << size;
  }
}

TEST(Bytes, RefuseALengthBeyondTheLimitOrTheMessage) {
  for (const std::uint32_t length : {5u, 100u, 0x7fffffffu, 0xffffffffu}) {
    ByteWriter writer;
    writer.u32(length);
    writer.u32(0);
    const std::vector<std::byte> bytes = writer.take();
    try {
      ByteReader(bytes, "the table of rank 3").text(length < 100 ? 8 : 4);
      ADD_FAILURE() << length;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kMismatch);
      EXPECT_TRUE(std::string(error.what()).starts_with("the table of rank 3 ")) << error.what();
    }
  }
}

TEST(Bytes, RefuseRanksThatDoNotExist) {
  const auto read = [](std::uint32_t rank, int ranks, int lowest) {
    ByteWriter writer;
    writer.u32(rank);
    return ByteReader(writer.view(), "the message").rank(ranks, lowest);
  };
  EXPECT_EQ(read(3, 4, 0), 3);
  EXPECT_EQ(read(static_cast<std::uint32_t>(-2), 4, -2), -2);
  EXPECT_THROW(read(4, 4, 0), Error);
  EXPECT_THROW(read(static_cast<std::uint32_t>(-1), 4, 0), Error);
  EXPECT_THROW(read(1, 4, 2), Error);
}

TEST(Bytes, RefuseWhatFollowsTheEnd) {
  const std::vector<std::byte> bytes(3);
  ByteReader reader(bytes, "the message");
  reader.u16();
  EXPECT_THROW(reader.finish(), Error);
}

TEST(Error, NamesItsCodes) {
  EXPECT_STREQ(name(ErrorCode::kInvalidArgument), "invalid argument");
  EXPECT_STREQ(name(ErrorCode::kTimeout), "timeout");
}

TEST(Error, SaysWhatTheSystemRefusedAndWhatToDo) {
  const Error error = system_error("cannot bind 10.0.0.1:4000", EADDRINUSE, "choose another TUTTI_PORT");
  EXPECT_EQ(error.code(), ErrorCode::kSystem);
  EXPECT_STREQ(error.what(),
               "cannot bind 10.0.0.1:4000: Address already in use (EADDRINUSE); choose another TUTTI_PORT");
  EXPECT_EQ(errno_text(12345), "error 12345");
}

}  // namespace
}  // namespace tutti

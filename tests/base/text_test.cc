#include "base/text.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Text, IsCutBetweenCharacters) {
  EXPECT_EQ(cut_text("f32×1000", 20), "f32×1000");
  EXPECT_EQ(cut_text("f32×1000", 5), "f32×");
  EXPECT_EQ(cut_text("f32×1000", 4), "f32");  // × has two bytes
  EXPECT_EQ(cut_text("×", 1), "");
  EXPECT_EQ(cut_text("", 0), "");
}

TEST(Text, HasTheSameHashEverywhere) {
  EXPECT_EQ(hash_of(""), 0xcbf29ce484222325u);
  EXPECT_EQ(hash_of("a"), 0xaf63dc4c8601ec8cu);  // of the definition of FNV-1a
}

}  // namespace
}  // namespace tutti

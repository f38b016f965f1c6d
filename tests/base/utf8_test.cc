#include "base/utf8.h"

#include <gtest/gtest.h>

namespace tutti {
namespace {

TEST(Printable, LeavesWhatSteersNothingAsItIs) {
  for (const char* text : {"", "rank 3 died", "f32×1000", "größer", "日本語", "\U0001F600", "\u00A0"}) {
    EXPECT_EQ(printable(text), text);
  }
}

TEST(Printable, BlanksWhatSteersATerminal) {
  EXPECT_EQ(printable("a\x1b[31mb\n\x7f\r\b"), "a [31mb    ");
  EXPECT_EQ(printable("\u009b31m\u009d0;title\u009c"), " 31m 0;title ");
  EXPECT_EQ(printable("\u202etxt\u202a \u2066x\u2069"), " txt   x ");
  EXPECT_EQ(printable("\u202f\u2065\u206a"), "\u202f\u2065\u206a");
}

TEST(Printable, MarksBytesThatAreNoUtf8) {
  EXPECT_EQ(printable("\x9b"
                      "31m\xff\xc3"),
            "?31m??");
  EXPECT_EQ(printable("\xe2\x80"), "??");
  EXPECT_EQ(printable("\xc0\x9b"), "??");  // overlong
}

}  // namespace
}  // namespace tutti

#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace tutti {
namespace {

TEST(Json, PutsCommasBetweenValuesOnly) {
  JsonWriter json;
  json.begin_object().field("a", 1).key("b").begin_array().value(true).value(2.5).end_array();
  json.key("c").begin_object().end_object().key("d").begin_array().end_array().field("e", "f").end_object();
  EXPECT_EQ(json.take(), R"({"a":1,"b":[true,2.5],"c":{},"d":[],"e":"f"})");
}

TEST(Json, BreaksLinesWhereAsked) {
  JsonWriter json;
  json.begin_array().new_line().value(1).new_line().value(2).end_array();
  EXPECT_EQ(json.take(), "[\n1,\n2]");
}

TEST(Json, EscapesWhatWouldEndOrSteerAText) {
  JsonWriter json;
  json.value("a\"b\\c\n\x01\x7f×");
  EXPECT_EQ(json.take(), "\"a\\\"b\\\\c\\u000a\\u0001\\u007f×\"");
}

TEST(Json, ReplacesBytesThatAreNoUtf8) {
  for (const std::string bad : {"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    JsonWriter json;
    json.value("<" + bad + ">");
    const std::string text = json.take();
    EXPECT_TRUE(text.starts_with("\"<\uFFFD") && text.ends_with(">\"")) << text;
  }
}

TEST(Json, HasNoNumbersThatJsonHasNot) {
  JsonWriter json;
  json.begin_array().value(std::numeric_limits<double>::infinity()).value(std::numeric_limits<double>::quiet_NaN());
  json.value(std::numeric_limits<std::uint64_t>::max()).value(std::numeric_limits<std::int64_t>::min()).end_array();
  EXPECT_EQ(json.take(), "[null,null,18446744073709551615,-9223372036854775808]");
}

}  // namespace
}  // namespace tutti

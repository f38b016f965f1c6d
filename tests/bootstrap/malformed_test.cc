#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "bootstrap/gathering.h"
#include "bootstrap/id_text.h"
#include "bootstrap/introduction.h"
#include "bootstrap/survey_messages.h"
#include "bootstrap/survivor_messages.h"
#include "bootstrap/tree_messages.h"

namespace tutti {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kRanks = 6;
constexpr unsigned kSeed = 20'240'917;
constexpr int kRounds = 20'000;

// What takes a message apart, and one that it understands.
struct Parser {
  const char* name;
  Bytes good;
  std::function<void(std::span<const std::byte>)> parse;
};

HostEntry host() { return {"node1", "boot node1", {"10.1.0.1", "fd00::1"}}; }

Bytes table() {
  RankTable table(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) table.set(rank, host(), 77, 4000);
  ByteWriter writer;
  table.encode(writer);
  return writer.take();
}

Bytes introduction() {
  Introduction said;
  said.agreement_text = "TUTTI_ALGO=ring TUTTI_CHANNELS=2";
  said.host = host();
  return said.encode();
}

Bytes assignment() {
  Assignment assignment;
  assignment.parent = 1;
  assignment.parent_addresses = host().addresses;
  assignment.table = table();
  return assignment.encode();
}

Bytes tree_news() {
  TreeNews news;
  news.departed = {1, 4};
  news.goodbyes = {{7, kRanks, 1, 7}, {9, 2, 0, 9}};
  return news.encode();
}

Bytes comparison() {
  Comparison comparison;
  comparison.scope = 9;
  comparison.rank = 2;
  std::copy_n("all_reduce", 11, comparison.call.text);
  return comparison.encode();
}

Bytes survivor_message() {
  SurvivorMessage message;
  message.kind = SurvivorMessage::Kind::kDecision;
  message.members = {0, 2, 5};
  message.refusal = {ErrorCode::kTimeout, 3, "why"};
  return message.encode();
}

Bytes survey_answer() {
  SurveyAnswer answer{9, 2, 4, {}};
  RankSet ranks(1);
  ranks.add(2);
  ranks.add(5);
  answer.findings.add({Activity::Kind::kCollective, true, 7, 3, 250, "barrier #7"}, ranks);
  answer.findings.add({Activity::Kind::kIdle, true, 6, -1, Activity::kUnknownTime, ""}, RankSet(3));
  answer.findings.silent.push_back({4, 0});
  return answer.encode();
}

Bytes parts_of(const std::vector<std::uint32_t>& ranks) {
  ByteWriter writer;
  writer.u64(1);
  for (const std::uint32_t rank : ranks) {
    writer.u32(rank);
    writer.text("part");
  }
  return writer.take();
}

Bytes id_text() {
  const std::string text =
      format_id({.nonce = Nonce{}, .secret = Key::from_text("seed"), .roots = {{"10.1.0.1", 4000}, {"fd00::1", 4000}}});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<Parser> parsers() {
  return {
      {"introduction", introduction(), [](auto bytes) { Introduction::decode(bytes); }},
      {"assignment", assignment(), [](auto bytes) { Assignment::decode(bytes, kRanks); }},
      {"table", table(),
       [](auto bytes) {
         ByteReader reader(bytes, "the table");
         const RankTable table = RankTable::decode(reader, kRanks);
         for (int rank = -1; rank <= kRanks; ++rank) table.describe(rank);
         for (int rank = 0; rank < kRanks; ++rank) table.addresses(rank);
       }},
      {"news of the tree", tree_news(), [](auto bytes) { TreeNews::decode(bytes, kRanks); }},
      {"death", Death{3, 0, "it ended"}.encode(), [](auto bytes) { Death::decode(bytes, kRanks); }},
      {"failure of a communicator", ScopePoison{9, {ErrorCode::kRemote, 3, "why"}}.encode(),
       [](auto bytes) { ScopePoison::decode(bytes); }},
      {"survivors", survivor_message(), [](auto bytes) { SurvivorMessage::decode(bytes, kRanks); }},
      {"comparison", comparison(), [](auto bytes) { Comparison::decode(bytes, kRanks); }},
      {"question what ranks do", SurveyQuestion{9, 2, 4, 900}.encode(),
       [](auto bytes) { SurveyQuestion::decode(bytes, kRanks); }},
      {"answer what ranks do", survey_answer(),
       [](auto bytes) {
         const SurveyAnswer answer = SurveyAnswer::decode(bytes, kRanks);
         for (const auto& finding : answer.findings.findings) {
           finding.ranks.text();
           finding.ranks.ranks();
         }
       }},
      {"report what ranks do", SurveyReport{9, 2, 4, 3, "rank 3 has made no call"}.encode(),
       [](auto bytes) { SurveyReport::decode(bytes, kRanks); }},
      {"poison", Poison{ErrorCode::kRemote, 3, "why"}.encode(),
       [](auto bytes) {
         ByteReader reader(bytes, "a failure");
         Poison::decode(reader);
       }},
      {"parts of an exchange", parts_of({1, 5}),
       [](auto bytes) {
         Gathering gathering(1, kRanks);
         gathering.take(bytes);
         gathering.ready();
       }},
      {"result of an exchange", parts_of({0, 1, 2, 3, 4, 5}), [](auto bytes) { Gathering(1, kRanks).finish(bytes); }},
      {"unique id", id_text(),
       [](auto bytes) {
         parse_id({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
       }},
  };
}

// Parses exactly these bytes, so that a sanitizer sees every step past them; anything but an Error ends the test.
void survive(const Parser& parser, const Bytes& bytes) {
  const Bytes exact(bytes);
  try {
    parser.parse(exact);
  } catch (const Error&) {
  }
}

TEST(Malformed, MessagesAreUnderstoodWhenTheyAreNotDamaged) {
  for (const Parser& parser : parsers()) {
    if (std::string_view(parser.name) == "parts of an exchange") continue;  // rank 1 has one child of six ranks: 5
    EXPECT_NO_THROW(parser.parse(parser.good)) << parser.name;
  }
}

TEST(Malformed, MessagesCutAnywhereAreRefused) {
  for (const Parser& parser : parsers()) {
    for (std::size_t size = 0; size < parser.good.size(); ++size) {
      survive(parser, Bytes(parser.good.begin(), parser.good.begin() + static_cast<std::ptrdiff_t>(size)));
    }
  }
}

TEST(Malformed, BytesThatAreRandomOrRandomlyDamagedDoNoHarm) {
  std::mt19937 random(kSeed);
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  RecordProperty("seed", static_cast<int>(kSeed));
  const auto any = [&random](std::size_t below) {
    return std::uniform_int_distribution<std::size_t>(0, below - 1)(random);
  };
  for (const Parser& parser : parsers()) {
    for (int round = 0; round < kRounds; ++round) {
      Bytes bytes = parser.good;
      if (round % 8 == 0) {
        bytes.resize(any(200));
        std::ranges::generate(bytes, [&] { return static_cast<std::byte>(any(256)); });
      } else {
        for (std::size_t changes = 1 + any(4); changes > 0; --changes) {
          switch (any(5)) {
            case 0:
              bytes[any(bytes.size())] = static_cast<std::byte>(any(256));
              break;
            case 1:
              bytes[any(bytes.size())] ^= static_cast<std::byte>(1 << any(8));
              break;
            case 2:  // a length or a number at its limits
              for (std::size_t i = any(bytes.size()), end = i + 4; i < end && i < bytes.size(); ++i) {
                bytes[i] = std::byte{round % 2 == 0 ? std::uint8_t{0xFF} : std::uint8_t{0}};
              }
              break;
            case 3:
              bytes.resize(1 + any(bytes.size()));
              break;
            default:
              bytes.insert(bytes.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(any(bytes.size())));
          }
        }
      }
      survive(parser, bytes);
    }
  }
}

TEST(Malformed, ExchangesRefuseARankThatComesTwiceOrFromElsewhere) {
  const auto refuses = [](const std::vector<std::uint32_t>& ranks) {
    Gathering gathering(0, kRanks);
    try {
      gathering.take(parts_of(ranks));
    } catch (const Error& error) {
      return error.code() == ErrorCode::kMismatch;
    }
    return false;
  };
  EXPECT_FALSE(refuses({1, 5, 2}));
  EXPECT_TRUE(refuses({1, 1})) << "twice";
  EXPECT_TRUE(refuses({0})) << "this rank itself";
  EXPECT_TRUE(refuses({6})) << "no rank at all";
  EXPECT_TRUE(refuses({0xFFFFFFFF}));
}

}  // namespace
}  // namespace tutti

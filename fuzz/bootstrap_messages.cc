// What ranks say to each other on authenticated connections, taken apart by whoever receives it. A message that is
// understood must mean the same when it is passed on.
#include <algorithm>

#include "bootstrap/gathering.h"
#include "bootstrap/introduction.h"
#include "bootstrap/rank_table.h"
#include "bootstrap/survey_messages.h"
#include "bootstrap/survivor_messages.h"
#include "bootstrap/tree_messages.h"
#include "fuzz/input.h"
#include "fuzz/target.h"

namespace tutti::fuzz {
namespace {

enum class Kind : std::uint8_t {
  kIntroduction,
  kAssignment,
  kTable,
  kTreeNews,
  kDeath,
  kComparison,
  kPoison,
  kScopePoison,
  kSurvivor,
  kParts,
  kGathered,
  kQuestion,
  kAnswer,
  kReport,
  kCount
};

constexpr int kMostRanks = 40;

template <class Message, class Decode>
void pass_on(const Message& message, Decode decode) {
  const Bytes once = message.encode();
  require(decode(once).encode() == once, "a message means the same when it is passed on");
}

// With the way to encode it that the others have.
struct Table {
  RankTable table;
  Bytes encode() const {
    ByteWriter writer;
    table.encode(writer);
    return writer.take();
  }
};

void take(Kind kind, int ranks, std::span<const std::byte> bytes) {
  switch (kind) {
    case Kind::kIntroduction: {
      const Introduction said = Introduction::decode(bytes);
      require(said.host.addresses.size() <= kMaxAddresses, "addresses are bounded");
      static_cast<void>(usable_addresses(said.host.addresses, said.port));
      pass_on(said, [](const Bytes& again) { return Introduction::decode(again); });
      break;
    }
    case Kind::kAssignment: {
      const Assignment assignment = Assignment::decode(bytes, ranks);
      require(assignment.parent >= -1 && assignment.parent < ranks, "a parent is a rank");
      pass_on(assignment, [ranks](const Bytes& again) { return Assignment::decode(again, ranks); });
      break;
    }
    case Kind::kTable: {
      const auto decode = [ranks](std::span<const std::byte> from) {
        ByteReader reader(from, "the table");
        return Table{RankTable::decode(reader, ranks)};
      };
      const Table table = decode(bytes);
      for (int rank = -1; rank <= ranks; ++rank) static_cast<void>(table.table.describe(rank));
      require(table.encode().size() <= RankTable::max_bytes(ranks), "a table has a bounded size");
      pass_on(table, decode);
      break;
    }
    case Kind::kTreeNews: {
      const TreeNews news = TreeNews::decode(bytes, ranks);
      for (const int rank : news.departed) require(rank >= 0 && rank < ranks, "whoever left is a rank");
      for (const Goodbye& goodbye : news.goodbyes) {
        require(goodbye.rank >= 0 && goodbye.rank < goodbye.members && goodbye.members <= ranks,
                "whoever left a communicator is a member");
      }
      require(news.encode().size() <= TreeNews::max_bytes(ranks), "news have a bounded size");
      pass_on(news, [ranks](const Bytes& again) { return TreeNews::decode(again, ranks); });
      break;
    }
    case Kind::kDeath: {
      const Death death = Death::decode(bytes, ranks);
      require(death.rank >= 0 && death.rank < ranks, "whoever died is a rank");
      pass_on(death, [ranks](const Bytes& again) { return Death::decode(again, ranks); });
      break;
    }
    case Kind::kComparison: {
      const Comparison comparison = Comparison::decode(bytes, ranks);
      require(comparison.call.text[sizeof comparison.call.text - 1] == '\0', "a description is terminated");
      pass_on(comparison, [ranks](const Bytes& again) { return Comparison::decode(again, ranks); });
      break;
    }
    case Kind::kPoison: {
      const auto decode = [](std::span<const std::byte> from) {
        ByteReader reader(from, "a failure");
        return Poison::decode(reader);
      };
      const Poison poison = decode(bytes);
      static_cast<void>(name(poison.code));
      pass_on(poison, decode);
      break;
    }
    case Kind::kScopePoison: {
      const ScopePoison poison = ScopePoison::decode(bytes);
      pass_on(poison, [](const Bytes& again) { return ScopePoison::decode(again); });
      break;
    }
    case Kind::kSurvivor: {
      const SurvivorMessage message = SurvivorMessage::decode(bytes, ranks);
      for (const int member : message.members) require(member >= 0 && member < ranks, "a survivor is a rank");
      require(message.encode().size() <= SurvivorMessage::max_bytes(ranks), "a message has a bounded size");
      pass_on(message, [ranks](const Bytes& again) { return SurvivorMessage::decode(again, ranks); });
      break;
    }
    case Kind::kParts: {
      Gathering gathering(bytes.size() % 2 == 0 ? 0 : 1, ranks > 1 ? ranks : 2);
      gathering.contribute({});
      gathering.take(bytes);
      static_cast<void>(gathering.ready());
      break;
    }
    case Kind::kQuestion: {
      const SurveyQuestion question = SurveyQuestion::decode(bytes, ranks);
      require(question.asker >= 0 && question.asker < ranks, "whoever asks is a rank");
      pass_on(question, [ranks](const Bytes& again) { return SurveyQuestion::decode(again, ranks); });
      break;
    }
    case Kind::kAnswer: {
      const SurveyAnswer answer = SurveyAnswer::decode(bytes, ranks);
      for (const Findings::Finding& finding : answer.findings.findings) {
        require(finding.ranks.size() <= ranks, "whoever answers is a rank");
        for (const int rank : finding.ranks.ranks()) require(finding.ranks.contains(rank), "ranges are in order");
      }
      pass_on(answer, [ranks](const Bytes& again) { return SurveyAnswer::decode(again, ranks); });
      Findings all;
      all.add(answer.findings);
      all.add(answer.findings);
      require(all.findings.size() <= Findings::kMost, "findings are bounded");
      break;
    }
    case Kind::kReport: {
      const SurveyReport report = SurveyReport::decode(bytes, ranks);
      require(report.text.size() <= SurveyReport::kMaxText, "a report is short");
      pass_on(report, [ranks](const Bytes& again) { return SurveyReport::decode(again, ranks); });
      break;
    }
    default: {
      const auto all = Gathering(0, ranks).finish(bytes);
      require(static_cast<int>(all.size()) == ranks, "everybody's part is there");
    }
  }
}

HostEntry host() { return {"node1", "boot node1", {"10.1.0.1", "fd00::1", "fe80::1%eth0"}}; }

Bytes table(int ranks) {
  Table made{RankTable(ranks)};
  for (int rank = 0; rank < ranks; ++rank) made.table.set(rank, host(), 77, 4000);
  return made.encode();
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

}  // namespace

void run(std::span<const std::byte> bytes) {
  Input input(bytes);
  const auto kind = static_cast<Kind>(input.below(static_cast<unsigned>(Kind::kCount)));
  const int ranks = 1 + static_cast<int>(input.below(kMostRanks));
  try {
    take(kind, ranks, input.rest());
  } catch (const Error& error) {
    require(error.code() == ErrorCode::kMismatch, "what cannot be understood is a mismatch");
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  const auto add = [&all](Kind kind, int ranks, const Bytes& message) {
    Bytes seed = {static_cast<std::byte>(kind), static_cast<std::byte>(ranks - 1)};
    seed.insert(seed.end(), message.begin(), message.end());
    all.push_back(seed);
  };
  Introduction introduction;
  introduction.agreement_text = "TUTTI_ALGO=ring TUTTI_CHANNELS=2";
  introduction.host = host();
  add(Kind::kIntroduction, 4, introduction.encode());
  Assignment assignment;
  assignment.parent = 1;
  assignment.parent_addresses = host().addresses;
  assignment.table = table(3);
  add(Kind::kAssignment, 3, assignment.encode());
  add(Kind::kTable, 5, table(5));
  TreeNews news;
  news.departed = {1, 2};
  news.goodbyes = {{7, 4, 1, 7}, {9, 2, 0, 9}};
  add(Kind::kTreeNews, 4, news.encode());
  add(Kind::kDeath, 4, Death{3, 0, "it ended"}.encode());
  add(Kind::kScopePoison, 4, ScopePoison{9, {ErrorCode::kRemote, 3, "rank 3 died"}}.encode());
  Comparison comparison;
  comparison.rank = 2;
  std::copy_n("all_reduce", 11, comparison.call.text);
  add(Kind::kComparison, 4, comparison.encode());
  add(Kind::kPoison, 4, Poison{ErrorCode::kRemote, 3, "rank 3 died"}.encode());
  SurvivorMessage decision;
  decision.kind = SurvivorMessage::Kind::kDecision;
  decision.members = {0, 2, 3};
  decision.refusal = {ErrorCode::kTimeout, 1, "rank 1 lives but did not call shrink() in time"};
  add(Kind::kSurvivor, 4, decision.encode());
  add(Kind::kParts, 6, parts_of({1, 5}));
  add(Kind::kParts, 7, parts_of({5, 6}));
  add(Kind::kGathered, 3, parts_of({0, 1, 2}));
  add(Kind::kQuestion, 4, SurveyQuestion{9, 2, 4, 900}.encode());
  SurveyAnswer answer{9, 2, 4, {}};
  answer.findings.add({Activity::Kind::kCollective, true, 7, 3, 250, "barrier #7"}, RankSet(1));
  answer.findings.add({Activity::Kind::kIdle, true, 6, -1, Activity::kUnknownTime, ""}, RankSet(3));
  answer.findings.silent.push_back({2, 0});
  add(Kind::kAnswer, 4, answer.encode());
  add(Kind::kReport, 4, SurveyReport{9, 2, 4, 3, "rank 3 has made no call"}.encode());
  return all;
}

}  // namespace tutti::fuzz

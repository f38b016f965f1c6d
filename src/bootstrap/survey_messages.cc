#include "bootstrap/survey_messages.h"

#include "base/text.h"
#include "base/utf8.h"

namespace tutti {
namespace {

constexpr std::size_t kActivityBytes = 1 + 1 + 8 + 4 + 4 + 2 * (4 + Activity::kMaxText);

[[noreturn]] void malformed(const char* what) {
  throw Error(ErrorCode::kMismatch, std::string("an answer about what ranks do ") + what);
}

std::uint32_t encoded(int rank) { return static_cast<std::uint32_t>(rank); }

void encode_activity(ByteWriter& writer, const Activity& activity) {
  writer.u8(static_cast<std::uint8_t>(activity.kind));
  writer.u8(activity.begun ? 1 : 0);
  writer.u64(activity.called);
  writer.u32(encoded(activity.waits_for));
  writer.u32(activity.since_ms);
  writer.text(cut_text(activity.text, Activity::kMaxText));
  writer.text(cut_text(activity.elsewhere, Activity::kMaxText));
}

Activity decode_activity(ByteReader& reader, int ranks) {
  Activity activity;
  const std::uint8_t kind = reader.u8();
  if (kind > static_cast<std::uint8_t>(Activity::Kind::kReceive)) malformed("has a kind of call that does not exist");
  activity.kind = static_cast<Activity::Kind>(kind);
  const std::uint8_t begun = reader.u8();
  if (begun > 1) malformed("is neither yes nor no");
  activity.begun = begun == 1;
  activity.called = reader.u64();
  activity.waits_for = reader.rank(ranks, Activity::kSeveral);
  activity.since_ms = reader.u32();
  activity.text = printable(reader.text(Activity::kMaxText));
  activity.elsewhere = printable(reader.text(Activity::kMaxText));
  return activity;
}

void encode_ranks(ByteWriter& writer, const RankSet& set) {
  writer.u32(static_cast<std::uint32_t>(set.ranges().size()));
  for (const auto& [first, last] : set.ranges()) {
    writer.u32(encoded(first));
    writer.u32(encoded(last));
  }
}

RankSet decode_ranks(ByteReader& reader, int ranks) {
  RankSet set;
  const std::uint32_t count = reader.u32();
  if (count == 0 || count > static_cast<std::uint32_t>(ranks)) malformed("tells of no rank, or of more than there are");
  int next = 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    const int first = reader.rank(ranks, next);
    const int last = reader.rank(ranks, first);
    set.append({first, last});
    next = last + 2;
  }
  return set;
}

}  // namespace

std::vector<std::byte> SurveyQuestion::encode() const {
  ByteWriter writer;
  writer.u64(scope);
  writer.u32(encoded(asker));
  writer.u64(number);
  writer.u32(patience_ms);
  return writer.take();
}

SurveyQuestion SurveyQuestion::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "a question what ranks do");
  SurveyQuestion question;
  question.scope = reader.u64();
  question.asker = reader.rank(ranks);
  question.number = reader.u64();
  question.patience_ms = reader.u32();
  if (question.patience_ms > kMostPatience) malformed("may take too long");
  reader.finish();
  return question;
}

std::vector<std::byte> SurveyAnswer::encode() const {
  ByteWriter writer;
  writer.u64(scope);
  writer.u32(encoded(asker));
  writer.u64(number);
  writer.u32(static_cast<std::uint32_t>(findings.findings.size()));
  for (const Findings::Finding& finding : findings.findings) {
    encode_activity(writer, finding.activity);
    encode_ranks(writer, finding.ranks);
  }
  writer.u32(static_cast<std::uint32_t>(findings.silent.size()));
  for (const Findings::Silent& silent : findings.silent) {
    writer.u32(encoded(silent.rank));
    writer.u32(encoded(silent.observer));
  }
  return writer.take();
}

SurveyAnswer SurveyAnswer::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "an answer what ranks do");
  SurveyAnswer answer;
  answer.scope = reader.u64();
  answer.asker = reader.rank(ranks);
  answer.number = reader.u64();
  const std::uint32_t findings = reader.u32();
  if (findings > Findings::kMost) malformed("has too many parts");
  for (std::uint32_t i = 0; i < findings; ++i) {
    const Activity activity = decode_activity(reader, ranks);
    answer.findings.findings.push_back({activity, decode_ranks(reader, ranks)});
  }
  const std::uint32_t silent = reader.u32();
  if (silent > static_cast<std::uint32_t>(ranks)) malformed("tells of more ranks than there are");
  for (std::uint32_t i = 0; i < silent; ++i) {
    const int rank = reader.rank(ranks);
    answer.findings.silent.push_back({rank, reader.rank(ranks)});
  }
  reader.finish();
  return answer;
}

// Every finding with as many ranges as there can be: more than ever are.
std::size_t SurveyAnswer::max_bytes(int ranks) {
  const auto count = static_cast<std::size_t>(ranks);
  return 64 + Findings::kMost * (kActivityBytes + 8) + 8 * 8 * count + 8 * count;
}

std::vector<std::byte> SurveyReport::encode() const {
  ByteWriter writer;
  writer.u64(scope);
  writer.u32(encoded(asker));
  writer.u64(number);
  writer.u32(encoded(blamed));
  writer.text(cut_text(text, kMaxText));
  return writer.take();
}

SurveyReport SurveyReport::decode(std::span<const std::byte> payload, int ranks) {
  ByteReader reader(payload, "a report of who keeps others waiting");
  SurveyReport report;
  report.scope = reader.u64();
  report.asker = reader.rank(ranks);
  report.number = reader.u64();
  report.blamed = reader.rank(ranks, -1);
  report.text = printable(reader.text(kMaxText));
  reader.finish();
  return report;
}

}  // namespace tutti

// Frames of a control connection: what the other side says, authentic or not, in pieces of any size. Only what it
// really said gets through, in its order; then each frame is taken apart as a rank would.
#include <algorithm>

#include "bootstrap/gathering.h"
#include "bootstrap/incoming_frames.h"
#include "bootstrap/introduction.h"
#include "bootstrap/survey_messages.h"
#include "bootstrap/survivor_messages.h"
#include "bootstrap/tree_messages.h"
#include "fuzz/input.h"
#include "fuzz/target.h"

namespace tutti::fuzz {
namespace {

enum class Move : std::uint8_t { kSay, kSayDamaged, kRepeat, kLeaveOut, kPutIn, kCount };

constexpr std::size_t kLimit = 4096;
constexpr int kRanks = 9;
constexpr int kMostMoves = 16;

const Key& key() {
  static const Key made = Key::from_text("the key of one connection");
  return made;
}

Bytes frame_of(FrameType type, std::span<const std::byte> payload, std::uint64_t number) {
  Bytes bytes = *make_frame(type, payload);
  const FrameTag tag = frame_tag(key(), number, bytes);
  bytes.insert(bytes.end(), tag.begin(), tag.end());
  return bytes;
}

// As ControlNode, ControlTree and Root do.
void understand(FrameType type, std::span<const std::byte> payload) {
  ByteReader reader(payload, "a message");
  switch (type) {
    case FrameType::kIntroduction:
      Introduction::decode(payload);
      break;
    case FrameType::kAssignment:
      Assignment::decode(payload, kRanks);
      break;
    case FrameType::kRefused:
      Poison::decode(reader);
      break;
    case FrameType::kPoison:
      ScopePoison::decode(payload);
      break;
    case FrameType::kState:
    case FrameType::kGoodbye:
      TreeNews::decode(payload, kRanks);
      break;
    case FrameType::kDeath:
      Death::decode(payload, kRanks);
      break;
    case FrameType::kTable:
      RankTable::decode(reader, kRanks);
      break;
    case FrameType::kGatherUp:
      Gathering(0, kRanks).take(payload);
      break;
    case FrameType::kGatherDown:
      Gathering(0, kRanks).finish(payload);
      break;
    case FrameType::kAsk:
      SurveyQuestion::decode(payload, kRanks);
      break;
    case FrameType::kAnswer:
      SurveyAnswer::decode(payload, kRanks);
      break;
    case FrameType::kReport:
      SurveyReport::decode(payload, kRanks);
      break;
    case FrameType::kCompare:
      Comparison::decode(payload, kRanks);
      break;
    case FrameType::kCallBack:
      CallBack::decode(payload, kRanks);
      break;
    case FrameType::kSurvivor:
      SurvivorMessage::decode(payload, kRanks);
      break;
    default:
      break;
  }
}

class Receiver {
 public:
  // A whole frame, with its tag.
  void said(const Bytes& frame) { said_.push_back(frame); }
  std::size_t said() const { return said_.size(); }
  // Whether the stream still makes sense.
  bool hear(std::span<const std::byte> bytes) {
    incoming_.add(bytes);
    while (const auto frame = incoming_.next()) {
      require(heard_ < said_.size(), "nothing gets through that was not said");
      const Bytes& said = said_[heard_];
      require(said[kFrameHeaderBytes - 1] == static_cast<std::byte>(frame->type) &&
                  std::ranges::equal(
                      frame->payload,
                      std::span(said).subspan(kFrameHeaderBytes, said.size() - kFrameHeaderBytes - kFrameTagBytes)),
              "what gets through was said, in this order");
      ++heard_;
      try {
        understand(frame->type, frame->payload);
      } catch (const Error& error) {
        require(error.code() == ErrorCode::kMismatch, "what cannot be understood is a mismatch");
      }
    }
    incoming_.drop_taken();
    return incoming_.trouble() == nullptr;
  }

 private:
  IncomingFrames incoming_{key(), kLimit};
  std::vector<Bytes> said_;
  std::size_t heard_ = 0;
};

}  // namespace

void run(std::span<const std::byte> bytes) {
  Input input(bytes);
  Receiver receiver;
  const std::size_t piece = 1 + input.byte();
  bool sound = true;
  Bytes last;
  for (int moves = 0; moves < kMostMoves && !input.ended() && sound; ++moves) {
    const auto move = static_cast<Move>(input.below(static_cast<unsigned>(Move::kCount)));
    Bytes stream;
    if (move == Move::kPutIn) {
      const auto raw = input.blob();
      stream.assign(raw.begin(), raw.end());
    } else if (move == Move::kRepeat) {
      stream = last;
    } else {
      const auto type = static_cast<FrameType>(input.below(kFrameTypes + 2));
      const std::size_t length = input.integer<std::uint16_t>();
      stream = frame_of(type, input.take(length), receiver.said());
      receiver.said(stream);
      last = stream;
      if (move == Move::kSayDamaged) stream[input.integer<std::uint16_t>() % stream.size()] ^= std::byte{1};
      if (move == Move::kLeaveOut) stream.clear();
    }
    for (std::span<const std::byte> left = stream; sound && !left.empty();) {
      const auto part = left.first(std::min(piece, left.size()));
      sound = receiver.hear(part);
      left = left.subspan(part.size());
    }
  }
}

std::vector<Bytes> seeds() {
  std::vector<Bytes> all;
  Bytes together = {std::byte{200}};
  const auto add = [&](FrameType type, const Bytes& payload) {
    Bytes step = {static_cast<std::byte>(Move::kSay), static_cast<std::byte>(type),
                  static_cast<std::byte>(payload.size() & 0xFF), static_cast<std::byte>(payload.size() >> 8)};
    step.insert(step.end(), payload.begin(), payload.end());
    together.insert(together.end(), step.begin(), step.end());
    step.insert(step.begin(), std::byte{10});
    all.push_back(step);
  };
  Introduction introduction;
  introduction.host = {"node1", "boot node1", {"10.1.0.1"}};
  add(FrameType::kIntroduction, introduction.encode());
  TreeNews news;
  news.departed = {1};
  news.goodbyes = {{9, 2, 0, 9}};
  add(FrameType::kState, news.encode());
  add(FrameType::kDeath, Death{3, 0, "it ended"}.encode());
  add(FrameType::kPoison, ScopePoison{9, {ErrorCode::kRemote, 3, "rank 3 died"}}.encode());
  Comparison comparison;
  comparison.rank = 2;
  add(FrameType::kCompare, comparison.encode());
  add(FrameType::kAsk, SurveyQuestion{9, 2, 4, 900}.encode());
  SurveyAnswer answer{9, 2, 4, {}};
  answer.findings.add({Activity::Kind::kCollective, true, 7, 3, 250, "barrier #7"}, RankSet(1));
  add(FrameType::kAnswer, answer.encode());
  add(FrameType::kCallBack, CallBack{9, 2, 1, "no answer"}.encode());
  add(FrameType::kReport, SurveyReport{9, 2, 4, 3, "rank 3 has made no call"}.encode());
  ByteWriter parts;
  parts.u64(1);
  parts.u32(3);
  parts.text("part");
  add(FrameType::kGatherUp, parts.take());
  RankTable table(kRanks);
  for (int rank = 0; rank < kRanks; ++rank) table.set(rank, introduction.host, 77, 4000);
  ByteWriter encoded;
  table.encode(encoded);
  add(FrameType::kTable, encoded.take());
  all.push_back(together);
  return all;
}

}  // namespace tutti::fuzz

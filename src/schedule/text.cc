#include "schedule/text.h"

namespace tutti {
namespace {

std::string range(int first, int count) {
  if (count == 0) return "[]";
  std::string text = "[" + std::to_string(first);
  if (count > 1) text += ".." + std::to_string(first + count - 1);
  return text + "]";
}

const char* kind_name(StepKind kind) {
  constexpr const char* kNames[] = {"copy", "send", "recv", "forward", "reduce", "reduce-send"};
  return static_cast<int>(kind) < 6 ? kNames[static_cast<int>(kind)] : "unknown";
}

std::string describe_ranks(const Value& value, const Contributors& contributors, int ranks) {
  if (value.ranks == contributors.all()) return "all ranks";
  if (!contributors.exact()) return std::to_string(value.contributions) + " of " + std::to_string(ranks) + " ranks";
  std::string text = value.contributions == 1 ? "rank " : "ranks ";
  bool more = false;
  for (int rank = 0; rank < ranks; ++rank) {
    if ((value.ranks >> rank & 1) == 0) continue;
    if (more) text += ", ";
    text += std::to_string(rank);
    more = true;
  }
  return text;
}

}  // namespace

std::string text(PeerSet set) {
  switch (set) {
    case kNobody:
      return "nobody";
    case kEveryone:
      return "everyone";
    case kHostPeers:
      return "host peers";
    case kRailPeers:
      return "rail peers";
    case kGroupPeers:
      return "group peers";
    case kGroupRailPeers:
      return "group rail peers";
    case kTreeChildren:
      return "tree children";
    case kMirrorChildren:
      return "mirror children";
    default:
      return "rank " + std::to_string(set);
  }
}

std::string text(Space space, int first, int count) {
  constexpr const char* kNames[] = {"nothing", "input", "output", "scratch"};
  const int index = static_cast<int>(space);
  return (index < 4 ? kNames[index] : "unknown space") + range(first, count);
}

std::string text(const Step& step) {
  std::string line = kind_name(step.kind);
  if (step.source_space != Space::kNone) line += " " + text(step.source_space, step.source, step.count);
  if (receives(step)) {
    line += step.source_space != Space::kNone ? " with " : " ";
    line += "message" + range(step.part, step.count) + " from " + text(step.from);
  } else if (step.count == 0) {
    line += " empty message";
  }
  if (stores(step)) line += " into " + text(step.destination_space, step.destination, step.count);
  if (sends(step)) line += " to " + text(step.to);
  if (step.first) line += ", first";
  if (step.last) line += ", last";
  return line;
}

std::string describe_data(Collective collective, int ranks, int chunks, std::uint32_t data) {
  const int number = static_cast<int>(data);
  const std::string chunk = "chunk " + std::to_string(number % chunks);
  const int block = number / chunks;
  switch (even_form(collective)) {
    case Collective::kAllGather:
    case Collective::kGather:
    case Collective::kReduceScatter:
    case Collective::kScatter:
      return chunk + " of block " + std::to_string(block);
    case Collective::kAllToAll:
      return chunk + " of the block from rank " + std::to_string(block / ranks) + " to rank " +
             std::to_string(block % ranks);
    default:
      return chunk;
  }
}

std::string describe(const Value& value, const Contributors& contributors, Collective collective, int ranks,
                     int chunks) {
  if (!value.valid) return "nothing";
  std::string text = describe_data(collective, ranks, chunks, value.data);
  if (even_form(collective) != Collective::kAllToAll) text += " from " + describe_ranks(value, contributors, ranks);
  if (reduces(collective)) {
    if (!value.first) text += ", without the input map";
    if (value.last) text += ", with the output map";
  }
  return text;
}

}  // namespace tutti

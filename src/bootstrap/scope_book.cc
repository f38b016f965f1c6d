#include "bootstrap/scope_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tutti {
namespace {

constexpr std::size_t kComparisonsKept = 32;
constexpr std::size_t kReportsKept = 32;
constexpr std::size_t kMostScopes = 1 << 16;
constexpr std::size_t kOverKept = 4096;

}  // namespace

ScopeBook::ScopeBook(EventLoop& loop, ControlTree& tree, int self)
    : tree_(tree),
      surveys_(loop,
               {self, [this] { return tree_.neighbours(); }, [this](int rank) { return tree_.should_answer(rank); },
                [this](int to, FrameType type, std::span<const std::byte> payload) {
                  tree_.send(to, make_frame(type, payload));
                },
                [this](const SurveyQuestion& question, Findings& findings) { answer(question, findings); }}) {}

ScopeBook::Record* ScopeBook::find(ScopeId scope) {
  if (over_.contains(scope)) return nullptr;
  const auto [record, added] = records_.try_emplace(scope);
  if (added && records_.size() > kMostScopes) {
    records_.erase(record);
    throw Error(ErrorCode::kMismatch, "it tells of more communicators than a job can have");
  }
  return &record->second;
}

void ScopeBook::open(ControlScope& scope) {
  if (over_.contains(scope.id())) return;
  Record* const record = &records_[scope.id()];
  record->own = &scope;
  for (const auto& [rank, last_call] : record->left) {
    if (rank < scope.members()) scope.learn_goodbye(rank, last_call);
  }
  if (record->poison) scope.fail(*record->poison);
}

void ScopeBook::close(const ControlScope& scope) {
  if (const auto found = records_.find(scope.id()); found != records_.end()) found->second.own = nullptr;
  surveys_.forget(scope.id());
}

bool ScopeBook::receive(int from, FrameType type, std::span<const std::byte> payload, int ranks) {
  switch (type) {
    case FrameType::kPoison:
      learn_poison(ScopePoison::decode(payload), from);
      return true;
    case FrameType::kCompare:
      learn_comparison(Comparison::decode(payload, ranks), from);
      return true;
    case FrameType::kAsk:
      surveys_.take(from, SurveyQuestion::decode(payload, ranks));
      return true;
    case FrameType::kAnswer:
      surveys_.take(from, SurveyAnswer::decode(payload, ranks));
      return true;
    case FrameType::kCallBack:
      learn_call_back(CallBack::decode(payload, ranks), from);
      return true;
    case FrameType::kReport:
      learn_report(SurveyReport::decode(payload, ranks), from);
      return true;
    default:
      return false;
  }
}

void ScopeBook::introduce(int neighbour) const {
  TreeNews news;
  for (const auto& [scope, record] : records_) {
    if (record.poison) {
      tree_.send(neighbour, make_frame(FrameType::kPoison, ScopePoison{scope, *record.poison}.encode()));
    }
    for (const Comparison& comparison : record.comparisons) {
      tree_.send(neighbour, make_frame(FrameType::kCompare, comparison.encode()));
    }
    for (const auto& [rank, last_call] : record.left) {
      news.goodbyes.push_back({scope, record.members, rank, last_call});
      if (news.goodbyes.size() < TreeNews::kMostGoodbyes) continue;
      tree_.send(neighbour, make_frame(FrameType::kGoodbye, news.encode()));
      news = {};
    }
  }
  if (!news.empty()) tree_.send(neighbour, make_frame(FrameType::kGoodbye, news.encode()));
}

void ScopeBook::learn_goodbye(const Goodbye& goodbye, int from) {
  Record* record = find(goodbye.scope);
  if (record == nullptr) return;
  if (record->own != nullptr && goodbye.members != record->own->members()) {
    throw Error(ErrorCode::kMismatch, fmt::format("it says that communicator \"{}\" has {} members and not {}",
                                                  record->own->name(), goodbye.members, record->own->members()));
  }
  if (!record->left.emplace(goodbye.rank, goodbye.last_call).second) return;
  record->members = goodbye.members;
  if (record->own != nullptr) record->own->learn_goodbye(goodbye.rank, goodbye.last_call);
  tree_.spread(goodbye, from);
  if (record->left.size() < static_cast<std::size_t>(record->members)) return;
  records_.erase(goodbye.scope);
  over_.insert(goodbye.scope);
  over_in_order_.push_back(goodbye.scope);
  if (over_in_order_.size() > kOverKept) {
    over_.erase(over_in_order_.front());
    over_in_order_.pop_front();
  }
}

void ScopeBook::say_goodbye(const ControlScope& scope, std::uint64_t last_call) {
  learn_goodbye({scope.id(), scope.members(), scope.own().rank, last_call});
}

void ScopeBook::learn_poison(const ScopePoison& news, int from) {
  Record* record = find(news.scope);
  if (record == nullptr || record->poison) return;
  record->poison = news.poison;
  tree_.flood(make_frame(FrameType::kPoison, news.encode()), from);
  if (record->own != nullptr) record->own->fail(news.poison);
}

void ScopeBook::poison(const ControlScope& scope, const Poison& poison) {
  // Others hear of the first failure by the way on which it came here.
  if (!scope.failed()) learn_poison({scope.id(), poison}, ControlTree::kNobody);
}

void ScopeBook::ask_call_back(const ControlScope& scope, int peer, const std::string& trouble) {
  learn_call_back({scope.id(), scope.own().rank, peer, trouble}, ControlTree::kNobody);
}

void ScopeBook::learn_call_back(const CallBack& request, int from) {
  Record* record = find(request.scope);
  if (record == nullptr || record->poison) return;
  ControlScope* const own = record->own;
  if (own == nullptr || own->own().rank != request.to) {
    return tree_.flood(make_frame(FrameType::kCallBack, request.encode()), from);
  }
  if (request.from >= own->members() || request.from == request.to) {
    throw Error(ErrorCode::kMismatch, "it passes on a request of a rank that there is not");
  }
  own->call_back(request.from, request.trouble, [this, own](const Poison& reason) { poison(*own, reason); });
}

void ScopeBook::compare(const ControlScope& scope, const CallDescription& mine) {
  const Record* record = find(scope.id());
  if (record == nullptr) return;
  for (const Comparison& known : record->comparisons) {
    if (known.call.sequence == mine.sequence && known.call.signature != mine.signature) {
      return check(*record, Comparison(known), mine);
    }
  }
  learn_comparison({scope.id(), scope.own().rank, mine}, ControlTree::kNobody);
}

// What one rank asks is everybody's question: a rank that would ask the same need not, and nobody passes it on twice.
void ScopeBook::learn_comparison(const Comparison& comparison, int from) {
  Record* record = find(comparison.scope);
  if (record == nullptr) return;
  for (const Comparison& known : record->comparisons) {
    if (known.call.sequence == comparison.call.sequence && known.call.signature == comparison.call.signature) return;
  }
  record->comparisons.push_back(comparison);
  if (record->comparisons.size() > kComparisonsKept) record->comparisons.pop_front();
  tree_.flood(make_frame(FrameType::kCompare, comparison.encode()), from);
  CallDescription mine;
  if (from != ControlTree::kNobody && record->own != nullptr &&
      record->own->describe_call(comparison.call.sequence, mine)) {
    check(*record, comparison, mine);
  }
}

void ScopeBook::survey(const ControlScope& scope, std::function<void(const Findings&)> done) {
  surveys_.ask(scope.id(), std::move(done));
}

void ScopeBook::answer(const SurveyQuestion& question, Findings& findings) {
  const auto record = records_.find(question.scope);
  if (record == records_.end() || record->second.own == nullptr) return;
  record->second.own->describe_activities(question.asker, findings);
}

void ScopeBook::report(const ControlScope& scope, const std::string& text, int blamed) {
  learn_report({scope.id(), scope.own().rank, ++reports_, blamed, text}, ControlTree::kNobody);
}

void ScopeBook::learn_report(const SurveyReport& report, int from) {
  Record* record = find(report.scope);
  if (record == nullptr) return;
  const std::pair name(report.asker, report.number);
  if (std::ranges::find(record->reports, name) != record->reports.end()) return;
  record->reports.push_back(name);
  if (record->reports.size() > kReportsKept) record->reports.pop_front();
  tree_.flood(make_frame(FrameType::kReport, report.encode()), from);
  if (from != ControlTree::kNobody && record->own != nullptr) record->own->learn_report(report.text, report.blamed);
}

void ScopeBook::check(const Record& record, const Comparison& theirs, const CallDescription& mine) {
  if (mine.signature == theirs.call.signature) return;
  const ControlScope& own = *record.own;
  // Two calls that differ do not say whose is wrong.
  poison(own, {ErrorCode::kMismatch, Error::kNoPeer,
               fmt::format(
                   "{} called \"{}\" as #{} of communicator \"{}\" where {} called \"{}\": all ranks must make "
                   "the same calls in the same order; with TUTTI_DUMP_DIR set, tutti doctor tells which rank differs "
                   "from the others",
                   own.describe(own.own().rank), mine.text, mine.sequence, own.name(), own.describe(theirs.rank),
                   theirs.call.text)});
}

}  // namespace tutti

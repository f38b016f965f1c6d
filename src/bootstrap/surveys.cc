#include "bootstrap/surveys.h"

#include <algorithm>
#include <utility>

namespace tutti {
namespace {

constexpr std::size_t kOverKept = 256;
constexpr std::uint32_t kLeastPatience = 5;  // milliseconds

std::uint32_t patience_behind(std::uint32_t patience) { return std::max(kLeastPatience, patience - patience / 10); }

}  // namespace

bool Surveys::is_open(ScopeId scope, int asker) const {
  const auto first = open_.lower_bound({scope, asker, 0});
  return first != open_.end() && std::get<0>(first->first) == scope && std::get<1>(first->first) == asker;
}

bool Surveys::ask(ScopeId scope, Done done) {
  if (is_open(scope, wiring_.self)) return false;
  open({scope, wiring_.self, ++asked_, static_cast<std::uint32_t>(kPatience.count())}, kSelf, std::move(done));
  return true;
}

void Surveys::forget(ScopeId scope) {
  std::erase_if(open_, [&](const auto& entry) {
    return std::get<0>(entry.first) == scope && std::get<1>(entry.first) == wiring_.self;
  });
}

// Every question is answered, or its sender would wait: with nothing when it came before, or there are too many.
void Surveys::take(int from, const SurveyQuestion& question) {
  const Name name{question.scope, question.asker, question.number};
  const bool known = open_.contains(name) || std::ranges::find(over_, name) != over_.end();
  if (known || question.asker == wiring_.self || open_.size() >= kMostOpen || is_open(question.scope, question.asker)) {
    const SurveyAnswer nothing{question.scope, question.asker, question.number, {}};
    return wiring_.send(from, FrameType::kAnswer, nothing.encode());
  }
  open(question, from, nullptr);
}

void Surveys::open(const SurveyQuestion& question, int from, Done done) {
  const Name name{question.scope, question.asker, question.number};
  Open one{from, {}, {}, Timer(loop_), std::move(done)};
  for (const int neighbour : wiring_.neighbours()) {
    if (neighbour != from) one.pending.insert(neighbour);
  }
  wiring_.answer(question, one.findings);
  const std::set<int> asked = one.pending;
  open_.emplace(name, std::move(one))
      .first->second.deadline.arm_after(std::chrono::milliseconds(question.patience_ms),
                                        [this, name] { finish(name); });
  SurveyQuestion behind = question;
  behind.patience_ms = patience_behind(question.patience_ms);
  for (const int neighbour : asked) wiring_.send(neighbour, FrameType::kAsk, behind.encode());
  if (asked.empty()) finish(name);
}

void Surveys::take(int from, const SurveyAnswer& answer) {
  const Name name{answer.scope, answer.asker, answer.number};
  const auto found = open_.find(name);
  if (found == open_.end() || found->second.pending.erase(from) == 0) return;  // too late
  found->second.findings.add(answer.findings);
  if (found->second.pending.empty()) finish(name);
}

void Surveys::finish(const Name& name) {
  const auto found = open_.find(name);
  if (found == open_.end()) return;
  Open one = std::move(found->second);
  open_.erase(found);
  over_.push_back(name);
  if (over_.size() > kOverKept) over_.pop_front();
  for (const int neighbour : one.pending) {
    if (wiring_.should_answer(neighbour)) one.findings.silent.push_back({neighbour, wiring_.self});
  }
  const auto& [scope, asker, number] = name;
  if (one.from == kSelf) return one.done(one.findings);
  wiring_.send(one.from, FrameType::kAnswer, SurveyAnswer{scope, asker, number, std::move(one.findings)}.encode());
}

}  // namespace tutti

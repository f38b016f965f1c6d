#include "executor/issue_order.h"

#include <mutex>

#include "executor/point_to_point.h"

namespace tutti {

void IssueOrder::enter(Transfer& transfer) {
  if (transfer.place.order != nullptr) return;  // others change the next of its place only
  const std::lock_guard lock(lock_);
  transfer.place = {nullptr, this};
  (newest_ == nullptr ? oldest_ : newest_->place.next) = &transfer;
  newest_ = &transfer;
}

void IssueOrder::leave(Transfer& transfer) {
  const std::lock_guard lock(lock_);
  if (transfer.place.order != this) return;
  Transfer* before = nullptr;
  for (Transfer* other = oldest_; other != &transfer; other = other->place.next) before = other;
  (before == nullptr ? oldest_ : before->place.next) = transfer.place.next;
  if (newest_ == &transfer) newest_ = before;
  transfer.place = {};
}

bool IssueOrder::is_next(const Transfer& transfer, int peer) {
  const std::lock_guard lock(lock_);
  for (const Transfer* other = oldest_; other != nullptr && other != &transfer; other = other->place.next) {
    if (other->tag == transfer.tag && (other->peer == peer || other->peer == kAnySource)) return false;
  }
  return true;
}

}  // namespace tutti

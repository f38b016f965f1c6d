#include "bootstrap/dialer.h"

#include <algorithm>
#include <cerrno>

#include "base/system_error.h"
#include "bootstrap/sockets.h"
#include "bootstrap/waiting_room.h"

namespace tutti {
namespace {

constexpr std::chrono::milliseconds kStagger(250);
constexpr std::chrono::milliseconds kShortestChallenge(1000);

}  // namespace

Dialer::Dialer(EventLoop& loop, std::vector<SocketAddress> addresses, const Hello& hello, const Key& secret, Done done)
    : loop_(loop),
      addresses_(std::move(addresses)),
      hello_(hello),
      secret_(secret),
      done_(std::move(done)),
      stagger_(loop),
      deadline_(loop),
      connecting_(addresses_.size()) {}

std::shared_ptr<Dialer> Dialer::start(EventLoop& loop, std::vector<SocketAddress> addresses, const Hello& hello,
                                      const Key& secret, std::chrono::milliseconds patience, Done done) {
  auto made = std::make_shared<Dialer>(loop, std::move(addresses), hello, secret, std::move(done));
  // A stranger that is silent at one address must not use up the time of the others.
  made->patience_ = std::max(std::min(patience, kShortestChallenge),
                             patience / static_cast<int>(std::max<std::size_t>(1, made->addresses_.size())));
  made->deadline_.arm_after(patience, [weak = made->weak_from_this()] {
    if (const auto self = weak.lock()) self->give_up();
  });
  // Not from within: the caller does not have it yet.
  loop.post([made] { made->begin_next(); });
  return made;
}

void Dialer::begin_next() {
  if (!done_) return;
  if (begun_ == addresses_.size()) {
    if (failed_ == begun_) give_up();
    return;
  }
  const std::size_t which = begun_++;
  stagger_.arm_after(kStagger, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->begin_next();
  });
  while (!connecting_[which]) {
    try {
      int error = 0;
      UniqueFd socket = begin_connecting(addresses_[which], error);
      if (error != 0) return failed(which, errno_text(error), error == ECONNREFUSED);
      connecting_[which] = std::make_unique<Watch>(loop_, std::move(socket));
    } catch (const Error& error) {
      // Strangers give way to what this process needs itself.
      if (WaitingRoom::of_this_thread().clear_one()) continue;
      outcome_.exhausted = true;
      return failed(which, error.what(), false);
    }
  }
  connecting_[which]->when_writable([self = shared_from_this(), which] { self->connected(which); });
}

void Dialer::connected(std::size_t which) {
  if (!done_) return;
  const int fd = connecting_[which]->fd();
  int error = connection_error(fd);
  // While nobody listens on it, a local port can be given to the very socket that connects to it.
  if (error == 0 && local_address(fd) == addresses_[which]) error = ECONNREFUSED;
  if (error != 0) return failed(which, errno_text(error), error == ECONNREFUSED);
  outcome_.connected = true;
  connected_.push_back(which);
  challenge_next();
}

void Dialer::challenge_next() {
  if (challenge_ || connected_.empty()) return;
  const std::size_t which = connected_.front();
  connected_.erase(connected_.begin());
  challenging_ = which;
  UniqueFd socket = connecting_[which]->release();
  connecting_[which].reset();
  set_low_latency(socket.get());
  try {
    challenge_ = Challenge::as_client(loop_, std::move(socket), hello_, secret_, patience_,
                                      [self = shared_from_this(), which](Challenge::Outcome outcome) {
                                        self->challenged(which, std::move(outcome));
                                      });
  } catch (const Error& error) {
    outcome_.exhausted = true;
    failed(which, error.what(), false);
  }
}

void Dialer::challenged(std::size_t which, Challenge::Outcome outcome) {
  const std::shared_ptr<Challenge> over = std::move(challenge_);
  if (!done_) return;
  if (outcome.socket) {
    outcome_.socket = std::move(outcome.socket);
    outcome_.address = addresses_[which];
    return finish(std::move(outcome_));
  }
  if (outcome.proven) outcome_.alive = true;
  if (outcome.code == ErrorCode::kUnauthorized || outcome.code == ErrorCode::kMismatch) {
    outcome_.rejected = true;
    outcome_.code = outcome.code;
  }
  // Another program may get the port of a peer that is gone. One that stands before a peer may give way to it.
  if (!outcome.proven && (outcome.code == ErrorCode::kUnauthorized || outcome.code == ErrorCode::kMismatch ||
                          outcome.code == ErrorCode::kUnsupported)) {
    ++strangers_;
  }
  failed(which, outcome.trouble, false);
}

void Dialer::failed(std::size_t which, const std::string& trouble, bool refused) {
  connecting_[which].reset();
  ++failed_;
  if (refused) ++refused_;
  if (!outcome_.trouble.empty()) outcome_.trouble += "; ";
  outcome_.trouble += addresses_[which].text() + ": " + trouble;
  challenge_next();
  begin_next();
}

void Dialer::give_up() {
  if (!done_) return;
  if (challenge_) {
    outcome_.trouble += (outcome_.trouble.empty() ? "" : "; ") + addresses_[challenging_].text() +
                        ": connected, but nothing answers: that process is stopped, or another program listens there";
  }
  if (failed_ < begun_) {
    for (std::size_t i = 0; i < begun_; ++i) {
      if (!connecting_[i]) continue;
      outcome_.trouble += (outcome_.trouble.empty() ? "" : "; ") + addresses_[i].text() + ": no answer";
    }
  }
  outcome_.all_refused = refused_ == addresses_.size() && refused_ > 0;
  outcome_.gone = refused_ + strangers_ == addresses_.size() && !addresses_.empty();
  if (addresses_.empty()) outcome_.trouble = "it has no address that can be used from here";
  finish(std::move(outcome_));
}

void Dialer::finish(Outcome outcome) {
  const Done done = std::move(done_);
  cancel();
  done(std::move(outcome));
}

void Dialer::cancel() {
  done_ = nullptr;
  stagger_.cancel();
  deadline_.cancel();
  connecting_.clear();
  connecting_.resize(addresses_.size());
  connected_.clear();
  if (challenge_) challenge_->cancel();
  challenge_.reset();
}

}  // namespace tutti

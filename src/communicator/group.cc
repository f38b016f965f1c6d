#include "tutti/group.h"

#include <new>
#include <optional>

#include "base/only_errors.h"
#include "communicator/call_context.h"
#include "communicator/group_calls.h"

namespace tutti {

// One level of nesting.
class Group::Impl {
 public:
  explicit Impl(Stream stream) {
    calls_ = GroupCalls::current();
    if (calls_ == nullptr) {
      calls_ = &own_.emplace(stream);
    } else if (stream.engine() != nullptr && stream.engine() != calls_->stream().engine()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "a group inside another one names a different stream: all calls run on the stream of the outermost");
    }
    mark_ = calls_->begin_level(stream.limit());
    level_ = calls_->levels();
  }

  ~Impl() {
    if (ended_) return;
    calls_->check_thread();
    calls_->drop_from(mark_);
    calls_->end_level(mark_);
    if (!own_) return;
    calls_->work()->end_without_calls(Error(ErrorCode::kAborted, GroupCalls::kNotEnded));
  }

  Work end() {
    if (ended_) throw Error(ErrorCode::kInvalidArgument, "this group has been ended already");
    calls_->check_innermost(level_);
    ended_ = true;
    calls_->end_level(mark_);
    const auto work = calls_->work();
    if (own_) {
      only_errors([&] { calls_->run(); });
      own_.reset();
    }
    return work->work();
  }

 private:
  std::optional<GroupCalls> own_;  // of the outermost group
  GroupCalls* calls_ = nullptr;
  GroupCalls::Mark mark_{};
  std::size_t level_ = 0;
  bool ended_ = false;
};

Group::Group(Stream stream) : impl_(std::make_unique<Impl>(stream)) {}
Group::~Group() = default;
Work Group::end() try { return impl_->end(); } catch (const std::bad_alloc&) {
  throw CallContext::out_of_memory();
}

}  // namespace tutti

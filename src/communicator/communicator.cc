#include "tutti/communicator.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

#include "base/only_errors.h"
#include "base/text.h"
#include "base/utf8.h"
#include "bootstrap/meeting_watch.h"
#include "communicator/group_calls.h"
#include "communicator/issue.h"
#include "communicator/opening.h"
#include "communicator/session.h"
#include "communicator/setup.h"
#include "communicator/split.h"
#include "communicator/vector_arguments.h"

namespace tutti {

// The public face of a Session, once it is open.
class Communicator::Impl {
 public:
  // Opens it now, or when the calling thread's group ends. parent: what it is split off. give_up: tells those who wait,
  // where there is none.
  static std::unique_ptr<Impl> open(Opening::Open open, Session* parent = nullptr, Opening::GiveUp give_up = {}) {
    auto impl = std::make_unique<Impl>();
    if (GroupCalls* group = GroupCalls::current()) {
      impl->opening_ = std::make_shared<Opening>(std::move(open), std::move(give_up), parent, impl->session_);
      group->add_opening(impl->opening_);
    } else {
      impl->session_ = open();
    }
    return impl;
  }

  static std::unique_ptr<Impl> open_among(const Membership& membership, const Config& config, const Options& options) {
    try {
      return open([=] { return open_session(membership, config, options); }, nullptr,
                  [=](const Error& error) { ControlPlane::complain(membership, config, error); });
    } catch (const ToldFailure&) {
      throw;
    } catch (const std::exception& exception) {
      const Error error = as_error(exception);
      ControlPlane::complain(membership, config, error);
      throw error;
    }
  }

  ~Impl() {
    if (opening_ != nullptr) opening_->forget();
    try {
      destroy();
    } catch (const std::exception&) {
      // Whoever wants to know calls destroy().
    }
  }

  Session& session() const {
    if (session_ == nullptr) [[unlikely]]
      throw_not_open();
    return *session_;
  }

  std::unique_ptr<Impl> shrink(std::chrono::milliseconds patience) const {
    session();
    return open([old = session_, patience] { return old->shrink(patience); });
  }

  std::shared_ptr<Session> share_session() const {
    if (session_ == nullptr) throw_not_open();
    return session_;
  }

  void destroy() {
    if (session_ != nullptr) session_->destroy();
  }

  Work call(const CollectiveArguments& arguments, Stream stream) const try {
    CollectiveCalls& calls = session().collectives();
    if (is_direct(stream)) [[likely]]
      return Work::finished(calls.run(arguments, stream.limit()), -1);
    return issue_collective(session_, arguments, stream);
  } catch (const std::bad_alloc&) {
    throw CallContext::out_of_memory();
  }

  Work call(const TransferRequest& request, Stream stream) const try {
    TransferCalls& calls = session().transfers();
    if (is_direct(stream)) {
      const auto [source, count] = calls.run(request, stream.limit());
      return Work::finished(0, source, count);
    }
    return issue_transfer(session_, request, stream);
  } catch (const std::bad_alloc&) {
    throw CallContext::out_of_memory();
  }

 private:
  static bool is_direct(Stream stream) { return stream.engine() == nullptr && GroupCalls::current() == nullptr; }

  [[noreturn]] void throw_not_open() const {
    throw Error(ErrorCode::kInvalidArgument,
                opening_ == nullptr || !opening_->failure()
                    ? "this Communicator is made by a group that has not ended: call Group::end() before using it"
                    : "this Communicator could not be made: its Group::end() has thrown the reason");
  }

  std::shared_ptr<Session> session_;  // shared with the calls that it has on streams
  std::shared_ptr<Opening> opening_;  // shared with the group that makes it; null: made without one
};

namespace {

Collective collective_named(std::string_view text) {
  for (int c = 0; c < kCollectives; ++c) {
    if (text == name(static_cast<Collective>(c))) return static_cast<Collective>(c);
  }
  std::string message = "there is no collective \"" + std::string(text) + "\"; known:";
  for (int c = 0; c < kCollectives; ++c) message += std::string(" ") + name(static_cast<Collective>(c));
  throw Error(ErrorCode::kInvalidArgument, message);
}

template <class Impl>
const Impl& face(const std::unique_ptr<Impl>& impl) {
  if (impl == nullptr) [[unlikely]] {
    throw Error(ErrorCode::kInvalidArgument, "this Communicator was moved from: use the one it was moved to");
  }
  return *impl;
}

template <class Impl>
Session& opened(const std::unique_ptr<Impl>& impl) {
  return face(impl).session();
}

template <class Impl>
Caller caller(const std::unique_ptr<Impl>& impl) {
  const Session& session = opened(impl);
  return {session.rank(), session.ranks(), session.name()};
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::from_environment(const Options& options) {
  return only_errors([&] {
    const Config config = configure(options, membership_from_environment);
    const Membership membership = locate(config, options, membership_from_environment);
    return Communicator(Impl::open_among(membership, config, options));
  });
}

Communicator Communicator::create(const UniqueId& id, int rank, int ranks, const Options& options) {
  return only_errors([&] {
    const auto find = [&](const Config&) { return membership_from_id(id, rank, ranks); };
    const Config config = configure(options, find);
    const Membership membership = locate(config, options, find);
    return Communicator(Impl::open_among(membership, config, options));
  });
}

namespace {

// A function of the caller's store: what it throws that is no Error becomes one.
template <class Function>
auto use_store(const char* function, const std::string& key, Function call) {
  try {
    return call();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kCallback, fmt::format("{} of the store threw for \"{}\": {}", function, key, error.what()));
  } catch (...) {
    throw Error(ErrorCode::kCallback,
                fmt::format("{} of the store threw something that is no std::exception for \"{}\"", function, key));
  }
}

void check_store(const Store& store, int rank) {
  if (rank == 0 ? store.set != nullptr : store.get != nullptr) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("the Store has no function `{}`, which rank {} needs: rank 0 puts the id there, the others "
                          "get it",
                          rank == 0 ? "set" : "get", rank));
}

// What rank 0 puts into the store instead of an id: why there will be none.
constexpr std::string_view kNoId = "tutti: no id: ";
constexpr std::size_t kLongestReason = 1024;

std::string no_id(const Error& error) { return fmt::format("{}{}", kNoId, cut_text(error.what(), kLongestReason)); }

UniqueId make_id(const Store& store, const std::string& key) {
  try {
    return UniqueId::create();
  } catch (const Error& error) {
    use_store("set", key, [&] { store.set(key, no_id(error)); });
    throw;
  }
}

// Says for whom the store lets this rank wait; without a control thread nobody does.
std::unique_ptr<MeetingWatch> watch_store(const std::string& name, int rank, const Config& config) {
  try {
    return std::make_unique<MeetingWatch>(Process::get(), fmt::format("communicator \"{}\": rank {}", name, rank),
                                          config.duration(Setting::kStallWarning));
  } catch (const Error&) {
    return nullptr;
  }
}

// Whoever can write to the store may have put anything there. What it was stays unsaid: it may have a secret in it.
UniqueId id_from(const Store& store, const std::string& key) {
  const std::string value = use_store("get", key, [&] { return store.get(key); });
  if (value.starts_with(kNoId)) {
    throw Error(ErrorCode::kRemote,
                "rank 0 cannot take part: " + printable(cut_text(value, kLongestReason).substr(kNoId.size())), 0);
  }
  try {
    return UniqueId::parse(value);
  } catch (const Error& error) {
    throw Error(error.code(), "the store's value of \"" + key + "\" has " + std::to_string(value.size()) +
                                  " bytes and is not what rank 0 puts there: " + error.what());
  }
}

// An earlier run may have left an id there, and rank 0 puts another one in its place when it comes.
Membership membership_from_store(const Store& store, const std::string& key, const std::string& name, int rank,
                                 int ranks, const Config& config) {
  const std::unique_ptr<MeetingWatch> watch = watch_store(name, rank, config);
  if (watch) watch->waits(fmt::format("for the store's value of \"{}\", which rank 0 puts there", key));
  Membership membership = membership_from_id(id_from(store, key), rank, ranks);
  membership.id_place = fmt::format("the store's value of \"{}\"", key);
  membership.reread_id = [store, key] { return id_from(store, key).to_text(); };
  return membership;
}

}  // namespace

Communicator Communicator::create(const Store& store, const std::string& key, int rank, int ranks,
                                  const Options& options) {
  check_rank(rank, ranks);
  check_store(store, rank);
  const auto membership = [=](const Config& config) {
    if (rank != 0) return membership_from_store(store, key, options.name, rank, ranks, config);
    const UniqueId id = make_id(store, key);
    use_store("set", key, [&] { store.set(key, id.to_text()); });
    return membership_from_id(id, rank, ranks);
  };
  return only_errors([&] {
    const Config config = configure(options, membership);
    const auto give_up = [=](const Error& error) {
      if (rank == 0) return store.set(key, no_id(error));
      ControlPlane::complain(membership(config), config, error);
    };
    return Communicator(
        Impl::open([=] { return open_session(membership(config), config, options); }, nullptr, give_up));
  });
}

Communicator Communicator::shrink(std::chrono::milliseconds patience) {
  return only_errors([&] { return Communicator(face(impl_).shrink(patience)); });
}

void Communicator::destroy() {
  if (impl_ != nullptr) impl_->destroy();
}

std::optional<Communicator> Communicator::split(int color, int key, const Options& options) {
  return only_errors([&]() -> std::optional<Communicator> {
    const std::shared_ptr<Session> parent = face(impl_).share_session();
    auto made =
        Impl::open([parent, color, key, options] { return split_session(*parent, color, key, options); }, parent.get());
    // In a group, this rank still takes part for the others.
    if (color < 0) return std::nullopt;
    return Communicator(std::move(made));
  });
}

void Communicator::abort(const std::string& reason) { opened(impl_).abort(reason); }

int Communicator::rank() const { return opened(impl_).rank(); }
int Communicator::ranks() const { return opened(impl_).ranks(); }
int Communicator::hosts() const { return opened(impl_).hosts(); }
const std::string& Communicator::name() const { return opened(impl_).name(); }
Statistics Communicator::statistics() const { return opened(impl_).statistics(); }
std::string Communicator::plan(std::string_view collective, std::size_t count, DataType type, ReduceOp op) const {
  return opened(impl_).plan_text(collective_named(collective), count, type, op);
}

Work Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                              Stream stream) {
  return face(impl_).call(CollectiveArguments{Collective::kAllReduce, input, output, count, type, op, 0}, stream);
}

Work Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type, Stream stream) {
  return face(impl_).call(CollectiveArguments{Collective::kAllGather, input, output, count, type, kSum, 0}, stream);
}

Work Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                                  Stream stream) {
  return face(impl_).call(CollectiveArguments{Collective::kReduceScatter, input, output, count, type, op, 0}, stream);
}

Work Communicator::broadcast(const void* input, void* output, std::size_t count, DataType type, int root,
                             Stream stream) {
  return face(impl_).call(CollectiveArguments{Collective::kBroadcast, input, output, count, type, kSum, root}, stream);
}

Work Communicator::reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op, int root,
                          Stream stream) {
  return face(impl_).call(CollectiveArguments{Collective::kReduce, input, output, count, type, op, root}, stream);
}

Work Communicator::gather(const void* input, void* output, std::size_t count, DataType type, int root, Stream stream) {
  return face(impl_).call(CollectiveArguments{Collective::kGather, input, output, count, type, kSum, root}, stream);
}

Work Communicator::scatter(const void* input, void* output, std::size_t count, DataType type, int root, Stream stream) {
  return face(impl_).call(CollectiveArguments{Collective::kScatter, input, output, count, type, kSum, root}, stream);
}

Work Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType type, Stream stream) {
  return face(impl_).call(CollectiveArguments{Collective::kAllToAll, input, output, count, type, kSum, 0}, stream);
}

Work Communicator::barrier(Stream stream) { return face(impl_).call(CollectiveArguments{}, stream); }

Work Communicator::all_gather_v(const void* input, void* output, std::span<const std::size_t> counts,
                                std::span<const std::size_t> offsets, DataType type, Stream stream) {
  return face(impl_).call(all_gather_v_arguments(caller(impl_), input, output, counts, offsets, type), stream);
}

Work Communicator::reduce_scatter_v(const void* input, void* output, std::span<const std::size_t> counts,
                                    std::span<const std::size_t> offsets, DataType type, ReduceOp op, Stream stream) {
  return face(impl_).call(reduce_scatter_v_arguments(caller(impl_), input, output, counts, offsets, type, op), stream);
}

Work Communicator::all_to_all_v(const void* input, std::span<const std::size_t> input_counts,
                                std::span<const std::size_t> input_offsets, void* output,
                                std::span<const std::size_t> output_counts, std::span<const std::size_t> output_offsets,
                                DataType type, Stream stream) {
  return face(impl_).call(all_to_all_v_arguments(caller(impl_), input, input_counts, input_offsets, output,
                                                 output_counts, output_offsets, type),
                          stream);
}

Work Communicator::send(const void* input, std::size_t count, DataType type, int to, int tag, Stream stream) {
  const auto* bytes = static_cast<const std::byte*>(input);
  return face(impl_).call(TransferRequest{true, bytes, nullptr, count, type, to, tag}, stream);
}

Work Communicator::recv(void* output, std::size_t count, DataType type, int from, int tag, Stream stream) {
  auto* bytes = static_cast<std::byte*>(output);
  return face(impl_).call(TransferRequest{false, nullptr, bytes, count, type, from, tag}, stream);
}

Message Communicator::probe(int from, int tag) { return face(impl_).session().transfers().probe(from, tag); }

std::optional<Message> Communicator::try_probe(int from, int tag) {
  return face(impl_).session().transfers().try_probe(from, tag);
}

}  // namespace tutti

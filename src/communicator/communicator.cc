#include "tutti/communicator.h"

#include <utility>

#include "communicator/session.h"
#include "communicator/setup.h"
#include "communicator/vector_arguments.h"

namespace tutti {

// The public face of a Session, once it is open.
class Communicator::Impl {
 public:
  explicit Impl(std::unique_ptr<Session> opened) : session(std::move(opened)) {}
  std::unique_ptr<Session> session;
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
Session& opened(const Impl& impl) {
  if (impl == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "this Communicator was moved from: use the one it was moved to");
  }
  return *impl->session;
}

}  // namespace

Communicator::Communicator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Communicator::Communicator(Communicator&&) noexcept = default;
Communicator& Communicator::operator=(Communicator&&) noexcept = default;
Communicator::~Communicator() = default;

Communicator Communicator::from_environment(const Options& options) {
  const Config config = configure(options);
  return Communicator(std::make_unique<Impl>(open_session(membership_from_environment(config), config, options)));
}

Communicator Communicator::create(const UniqueId& id, int rank, int ranks, const Options& options) {
  const Config config = configure(options);
  return Communicator(std::make_unique<Impl>(open_session(membership_from_id(id, rank, ranks), config, options)));
}

Communicator Communicator::create(const Store& store, const std::string& key, int rank, int ranks,
                                  const Options& options) {
  if (rank == 0) {
    const UniqueId id = UniqueId::create();
    store.set(key, id.to_text());
    return create(id, rank, ranks, options);
  }
  return create(UniqueId::parse(store.get(key)), rank, ranks, options);
}

void Communicator::destroy() {
  if (impl_ != nullptr) impl_->session->destroy();
}

int Communicator::rank() const { return opened(impl_).rank(); }
int Communicator::ranks() const { return opened(impl_).ranks(); }
int Communicator::hosts() const { return opened(impl_).hosts(); }
const std::string& Communicator::name() const { return opened(impl_).name(); }
Statistics Communicator::statistics() const { return opened(impl_).statistics(); }
std::string Communicator::plan(std::string_view collective, std::size_t count, DataType type) const {
  return opened(impl_).plan_text(collective_named(collective), count, type);
}

Work Communicator::all_reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op, Stream) {
  opened(impl_).run({Collective::kAllReduce, input, output, count, type, op, 0});
  return {};
}

Work Communicator::all_gather(const void* input, void* output, std::size_t count, DataType type, Stream) {
  opened(impl_).run({Collective::kAllGather, input, output, count, type, kSum, 0});
  return {};
}

Work Communicator::reduce_scatter(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                                  Stream) {
  opened(impl_).run({Collective::kReduceScatter, input, output, count, type, op, 0});
  return {};
}

Work Communicator::broadcast(const void* input, void* output, std::size_t count, DataType type, int root, Stream) {
  opened(impl_).run({Collective::kBroadcast, input, output, count, type, kSum, root});
  return {};
}

Work Communicator::reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op, int root,
                          Stream) {
  opened(impl_).run({Collective::kReduce, input, output, count, type, op, root});
  return {};
}

Work Communicator::gather(const void* input, void* output, std::size_t count, DataType type, int root, Stream) {
  opened(impl_).run({Collective::kGather, input, output, count, type, kSum, root});
  return {};
}

Work Communicator::scatter(const void* input, void* output, std::size_t count, DataType type, int root, Stream) {
  opened(impl_).run({Collective::kScatter, input, output, count, type, kSum, root});
  return {};
}

Work Communicator::all_to_all(const void* input, void* output, std::size_t count, DataType type, Stream) {
  opened(impl_).run({Collective::kAllToAll, input, output, count, type, kSum, 0});
  return {};
}

Work Communicator::barrier(Stream) {
  opened(impl_).run({});
  return {};
}

Work Communicator::all_gather_v(const void* input, void* output, std::span<const std::size_t> counts,
                                std::span<const std::size_t> offsets, DataType type, Stream) {
  Session& session = opened(impl_);
  session.run(
      all_gather_v_arguments({session.rank(), session.ranks(), session.name()}, input, output, counts, offsets, type));
  return {};
}

Work Communicator::reduce_scatter_v(const void* input, void* output, std::span<const std::size_t> counts,
                                    std::span<const std::size_t> offsets, DataType type, ReduceOp op, Stream) {
  Session& session = opened(impl_);
  session.run(reduce_scatter_v_arguments({session.rank(), session.ranks(), session.name()}, input, output, counts,
                                         offsets, type, op));
  return {};
}

Work Communicator::all_to_all_v(const void* input, std::span<const std::size_t> input_counts,
                                std::span<const std::size_t> input_offsets, void* output,
                                std::span<const std::size_t> output_counts, std::span<const std::size_t> output_offsets,
                                DataType type, Stream) {
  Session& session = opened(impl_);
  session.run(all_to_all_v_arguments({session.rank(), session.ranks(), session.name()}, input, input_counts,
                                     input_offsets, output, output_counts, output_offsets, type));
  return {};
}

Work Communicator::send(const void* input, std::size_t count, DataType type, int to, int tag, Stream) {
  opened(impl_).send(input, count, type, to, tag);
  return {};
}

Work Communicator::recv(void* output, std::size_t count, DataType type, int from, int tag, Stream) {
  return Work::finished(0, opened(impl_).receive(output, count, type, from, tag));
}

}  // namespace tutti

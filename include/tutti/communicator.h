#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/requirements.h"  // first
#include "tutti/stream.h"
#include "tutti/types.h"
#include "tutti/unique_id.h"
#include "tutti/work.h"

namespace tutti {

namespace detail {

// A contiguous range of elements whose number is known.
template <class R>
concept Buffer =
    std::ranges::contiguous_range<std::remove_reference_t<R>> && std::ranges::sized_range<std::remove_reference_t<R>>;

}  // namespace detail

struct Options {
  // Appears in every message about this communicator.
  std::string name = "world";
  // Every element's result depends only on rank count, type and operation: not on count, algorithm, hosts or transport.
  bool reproducible = false;
  // A call that has not ended after so long fails the communicator with kTimeout on all ranks, and the message says who
  // was where. 0: never, negative: an error; Stream::within() gives one call a limit of its own.
  std::chrono::milliseconds timeout{0};
  // Settings for this communicator alone, by their TUTTI_ names; they win over the environment.
  std::map<std::string, std::string> config = {};
};

// A key-value store that the ranks of a job share, given by the caller (torch's TCPStore, etcd, a directory …). Rank 0
// needs set, the others get. What they throw is an Error already, or becomes one with kCallback.
struct Store {
  std::function<void(const std::string& key, const std::string& value)> set;
  // Blocks until the key is there.
  std::function<std::string(const std::string& key)> get;
};

// What a communicator has done so far on this rank.
struct Statistics {
  struct PerCollective {
    std::uint64_t calls = 0;
    std::uint64_t bytes = 0;  // of the larger of input and output
  };
  // By name: "all_reduce" … "barrier", "send", "recv".
  std::map<std::string, PerCollective> collectives;
  // Of every rank: how often this one waited in a collective (beyond the microseconds that any exchange takes) for it,
  // the last to arrive, and for how long altogether.
  struct Waited {
    std::uint64_t calls = 0;
    double seconds = 0;
  };
  std::vector<Waited> waited_for;
  // Messages that this rank read out of the buffers of others, which they have from allocate(), without a copy.
  std::uint64_t messages_read_in_place = 0;
  double setup_seconds = 0;      // from the call that made the communicator until it was ready
  double discovery_seconds = 0;  // of which: finding out what the machine is made of, once per process

  // One object; docs/doctor.md has its members.
  TUTTI_API std::string to_json() const;
};

// A message that can be received: what probe() finds.
struct Message {
  int source = -1;
  int tag = 0;
  std::size_t count = 0;  // elements …
  DataType type = DataType::kU8;
  std::size_t bytes() const { return count * element_size(type); }
};

// A group of ranks that communicate. All ranks issue the same collectives in the same order. Calls from several
// threads of a rank are safe; their order is the caller's duty. send and recv stand beside that order.
//
// Counts are elements. `count` is the number of elements that each rank contributes to all_reduce, broadcast and
// reduce, and the size of one rank's block in the other collectives. Buffers are aligned to their element, otherwise
// anywhere. A call may be in place as NCCL defines it: input == output; all_gather and gather with
// input == output + rank·count; reduce_scatter and scatter with output == input + rank·count. Any other overlap is an
// error. Zero counts are legal, with null pointers.
//
// Every call throws Error: kInvalidArgument leaves the communicator usable; anything else has failed it for good, on
// all ranks (but see split). A call returns when no other rank will read its input or write its output any more.
class TUTTI_API Communicator {
 public:
  // From the environment: a launcher's variables (mpirun, srun, torchrun) or TUTTI_RANK, TUTTI_NRANKS, TUTTI_COMM_ID.
  static Communicator from_environment(const Options& options = {});
  // 0 <= rank < ranks; the same id on all ranks.
  static Communicator create(const UniqueId& id, int rank, int ranks, const Options& options = {});
  // Rank 0 makes an id and publishes it in the store under `key`; the key must be new for every communicator.
  static Communicator create(const Store& store, const std::string& key, int rank, int ranks,
                             const Options& options = {});

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Says goodbye and releases everything; not a barrier. See destroy().
  ~Communicator();

  // As the destructor, but reports what went wrong. A second call does nothing. Waits for collectives that other
  // threads have issued; their sends and receives that wait for a peer end with kInvalidArgument. When it returns all
  // its Works are done, but for callbacks that still run and a group's calls of other communicators. (No thread may be
  // in a call when the destructor runs.)
  void destroy();

  // Ends every pending and later call of this communicator, on all ranks, with an error that gives the reason: kAborted
  // here, kRemote elsewhere. Local: waits for nobody. Any thread. destroy() then does not wait either.
  void abort(const std::string& reason = "");

  // Collective, in the order of the others: ranks of one colour become a communicator of their own, ordered by (key,
  // rank here). A negative colour: none for this rank. Control connections are shared with this communicator, which
  // stays usable, also when either is destroyed first; a failure of one is none of the other. `options.name` may be
  // empty: then it is "NAME/COLOUR". Settings are those of this communicator with `options.config` on top. Options that
  // are wrong or that the members of a colour disagree on fail the split for that colour, on all its members; what the
  // system refuses one rank fails it for all.
  std::optional<Communicator> split(int color, int key, const Options& options = {.name = ""});

  // After a failure: the survivors become a new communicator, in the order of their ranks here, without naming who died
  // and with new keys. All that call it before `patience` is over and live get the same members, or all fail: kTimeout
  // names the ranks that live but did not call. This communicator stays failed; calls of this rank that are pending end
  // before, and no peer that was left behind changes its buffers any more (memory.h).
  Communicator shrink(std::chrono::milliseconds patience = std::chrono::seconds(30));

  int rank() const;
  int ranks() const;
  int hosts() const;
  const std::string& name() const;
  Statistics statistics() const;
  // Algorithm and transports that a call of this size would use: "two_shot over shm". op: of collectives that reduce.
  std::string plan(std::string_view collective, std::size_t count, DataType type, ReduceOp op = kSum) const;

  Work all_reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op, Stream stream = {});
  // output: ranks·count elements, rank r's at r·count.
  Work all_gather(const void* input, void* output, std::size_t count, DataType type, Stream stream = {});
  // input: ranks·count elements; rank r gets the reduction of the elements from r·count.
  Work reduce_scatter(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                      Stream stream = {});
  // input counts at the root only.
  Work broadcast(const void* input, void* output, std::size_t count, DataType type, int root, Stream stream = {});
  // output counts at the root only.
  Work reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op, int root,
              Stream stream = {});
  // output, at the root only: ranks·count elements.
  Work gather(const void* input, void* output, std::size_t count, DataType type, int root, Stream stream = {});
  // input, at the root only: ranks·count elements.
  Work scatter(const void* input, void* output, std::size_t count, DataType type, int root, Stream stream = {});
  // input and output: ranks·count elements; block r goes to rank r.
  Work all_to_all(const void* input, void* output, std::size_t count, DataType type, Stream stream = {});
  Work barrier(Stream stream = {});

  // The vector forms: blocks of different sizes. `counts` and `offsets` are elements and have one entry a rank; no
  // offsets: the blocks lie one after the other. Empty blocks are legal. Blocks of an output must not overlap; what
  // lies between them is not touched. The lists may change as soon as the call returns, also on a stream. In place are
  // all_gather_v with input == output + offsets[rank()] and reduce_scatter_v with output == input + offsets[rank()].
  //
  // output: rank r's block of counts[r] elements at offsets[r]; all ranks pass the same counts. This rank gives
  // counts[rank()] elements.
  Work all_gather_v(const void* input, void* output, std::span<const std::size_t> counts,
                    std::span<const std::size_t> offsets, DataType type, Stream stream = {});
  // input: ranks blocks; rank r gets the reduction of the blocks counts[r] at offsets[r]; all ranks pass the same
  // counts.
  Work reduce_scatter_v(const void* input, void* output, std::span<const std::size_t> counts,
                        std::span<const std::size_t> offsets, DataType type, ReduceOp op, Stream stream = {});
  // Block r of the input goes to rank r, block r of the output comes from it: input_counts[r] here is
  // output_counts[rank()] there. Not in place.
  Work all_to_all_v(const void* input, std::span<const std::size_t> input_counts,
                    std::span<const std::size_t> input_offsets, void* output,
                    std::span<const std::size_t> output_counts, std::span<const std::size_t> output_offsets,
                    DataType type, Stream stream = {});

  // Matches in issue order per (sender, receiver, tag). Returns when the receiver has taken the message. Waits also
  // while 65,536 earlier messages to that rank have no receive yet, of whatever tags.
  Work send(const void* input, std::size_t count, DataType type, int to, int tag = 0, Stream stream = {});
  // from: a rank or kAnySource. Work::source() is the sender. Type must be the sender's; the buffer may be longer than
  // the message: count is how many elements it has room for, Work::count() how many came. A message that is longer
  // than the buffer is an error on all ranks (kMismatch).
  Work recv(void* output, std::size_t count, DataType type, int from, int tag = 0, Stream stream = {});

  // The message that the next recv from there with this tag takes, without taking it: behind those that receives
  // issued before will take, also on streams. from: a rank or kAnySource; then receive from Message::source. Where
  // several threads receive the same messages another one may come first. Not in a group.
  // probe blocks until there is one; try_probe does not: nothing is there yet.
  Message probe(int from, int tag = 0);
  std::optional<Message> try_probe(int from, int tag = 0);

  // The same calls for whatever is a contiguous range of elements: std::vector, std::array, arrays, std::span of const
  // and other elements, views of them. Both buffers have the same type of elements, one of DataTypeOf. A bool is
  // reduced by kMin (all), kMax (any), kBand, kBor or kBxor.
  template <detail::Buffer Input, detail::Buffer Output>
  Work all_reduce(Input&& input, Output&& output, ReduceOp op = kSum, Stream stream = {});
  // In place.
  template <detail::Buffer Data>
  Work all_reduce(Data&& data, ReduceOp op = kSum, Stream stream = {});
  template <detail::Buffer Input, detail::Buffer Output>
  Work all_gather(Input&& input, Output&& output, Stream stream = {});
  template <detail::Buffer Input, detail::Buffer Output>
  Work reduce_scatter(Input&& input, Output&& output, ReduceOp op = kSum, Stream stream = {});
  template <detail::Buffer Data>
  Work broadcast(Data&& data, int root, Stream stream = {});
  template <detail::Buffer Input, detail::Buffer Output>
  Work reduce(Input&& input, Output&& output, ReduceOp op, int root, Stream stream = {});
  // In place: the result takes the place of the root's contribution.
  template <detail::Buffer Data>
  Work reduce(Data&& data, ReduceOp op, int root, Stream stream = {});
  template <detail::Buffer Input, detail::Buffer Output>
  Work gather(Input&& input, Output&& output, int root, Stream stream = {});
  template <detail::Buffer Input, detail::Buffer Output>
  Work scatter(Input&& input, Output&& output, int root, Stream stream = {});
  template <detail::Buffer Input, detail::Buffer Output>
  Work all_to_all(Input&& input, Output&& output, Stream stream = {});
  template <detail::Buffer Input, detail::Buffer Output>
  Work all_gather_v(Input&& input, Output&& output, std::span<const std::size_t> counts,
                    std::span<const std::size_t> offsets = {}, Stream stream = {});
  template <detail::Buffer Input, detail::Buffer Output>
  Work reduce_scatter_v(Input&& input, Output&& output, std::span<const std::size_t> counts,
                        std::span<const std::size_t> offsets = {}, ReduceOp op = kSum, Stream stream = {});
  template <detail::Buffer Input, detail::Buffer Output>
  Work all_to_all_v(Input&& input, std::span<const std::size_t> input_counts,
                    std::span<const std::size_t> input_offsets, Output&& output,
                    std::span<const std::size_t> output_counts, std::span<const std::size_t> output_offsets,
                    Stream stream = {});
  template <detail::Buffer Input>
  Work send(Input&& input, int to, int tag = 0, Stream stream = {});
  template <detail::Buffer Output>
  Work recv(Output&& output, int from, int tag = 0, Stream stream = {});

  template <class T>
  Work all_reduce(std::span<const T> input, std::span<T> output, ReduceOp op = kSum, Stream stream = {});
  template <class T>
  Work all_gather(std::span<const T> input, std::span<T> output, Stream stream = {});
  template <class T>
  Work reduce_scatter(std::span<const T> input, std::span<T> output, ReduceOp op = kSum, Stream stream = {});
  template <class T>
  Work broadcast(std::span<T> data, int root, Stream stream = {});
  template <class T>
  Work reduce(std::span<const T> input, std::span<T> output, ReduceOp op, int root, Stream stream = {});
  template <class T>
  Work gather(std::span<const T> input, std::span<T> output, int root, Stream stream = {});
  template <class T>
  Work scatter(std::span<const T> input, std::span<T> output, int root, Stream stream = {});
  template <class T>
  Work all_to_all(std::span<const T> input, std::span<T> output, Stream stream = {});
  template <class T>
  Work all_gather_v(std::span<const T> input, std::span<T> output, std::span<const std::size_t> counts,
                    std::span<const std::size_t> offsets = {}, Stream stream = {});
  template <class T>
  Work reduce_scatter_v(std::span<const T> input, std::span<T> output, std::span<const std::size_t> counts,
                        std::span<const std::size_t> offsets = {}, ReduceOp op = kSum, Stream stream = {});
  template <class T>
  Work all_to_all_v(std::span<const T> input, std::span<const std::size_t> input_counts,
                    std::span<const std::size_t> input_offsets, std::span<T> output,
                    std::span<const std::size_t> output_counts, std::span<const std::size_t> output_offsets,
                    Stream stream = {});
  template <class T>
  Work send(std::span<const T> input, int to, int tag = 0, Stream stream = {});
  template <class T>
  Work recv(std::span<T> output, int from, int tag = 0, Stream stream = {});

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

#include "tutti/communicator_spans.h"

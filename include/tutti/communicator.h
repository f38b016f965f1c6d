#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tutti/error.h"
#include "tutti/export.h"
#include "tutti/stream.h"
#include "tutti/types.h"
#include "tutti/unique_id.h"

namespace tutti {

struct Options {
  // Appears in every message about this communicator.
  std::string name = "world";
  // Every element's result depends only on rank count, type and operation: not on count, algorithm, hosts or transport.
  bool reproducible = false;
  // Settings for this communicator alone, by their TUTTI_ names; they win over the environment.
  std::map<std::string, std::string> config;
};

// A key-value store that the ranks of a job share, given by the caller (torch's TCPStore, etcd, a directory …).
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
  // Messages that this rank read out of the buffers of others, which they have from allocate(), without a copy.
  std::uint64_t messages_read_in_place = 0;
  double setup_seconds = 0;      // from the call that made the communicator until it was ready
  double discovery_seconds = 0;  // of which: finding out what the machine is made of, once per process
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
// all ranks. A call returns when no other rank will read its input or write its output any more.
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
  // threads have issued; their sends and receives that wait for a peer end with kInvalidArgument. (No thread may be in
  // a call when the destructor runs.)
  void destroy();

  int rank() const;
  int ranks() const;
  int hosts() const;
  const std::string& name() const;
  Statistics statistics() const;
  // Algorithm and transports that a call of this size would use: "two_shot over shm".
  std::string plan(std::string_view collective, std::size_t count, DataType type) const;

  void all_reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op, Stream stream = {});
  // output: ranks·count elements, rank r's at r·count.
  void all_gather(const void* input, void* output, std::size_t count, DataType type, Stream stream = {});
  // input: ranks·count elements; rank r gets the reduction of the elements from r·count.
  void reduce_scatter(const void* input, void* output, std::size_t count, DataType type, ReduceOp op,
                      Stream stream = {});
  // input counts at the root only.
  void broadcast(const void* input, void* output, std::size_t count, DataType type, int root, Stream stream = {});
  // output counts at the root only.
  void reduce(const void* input, void* output, std::size_t count, DataType type, ReduceOp op, int root,
              Stream stream = {});
  // output, at the root only: ranks·count elements.
  void gather(const void* input, void* output, std::size_t count, DataType type, int root, Stream stream = {});
  // input, at the root only: ranks·count elements.
  void scatter(const void* input, void* output, std::size_t count, DataType type, int root, Stream stream = {});
  // input and output: ranks·count elements; block r goes to rank r.
  void all_to_all(const void* input, void* output, std::size_t count, DataType type, Stream stream = {});
  void barrier(Stream stream = {});

  // Matches in issue order per (sender, receiver, tag). Returns when the receiver has taken the message.
  void send(const void* input, std::size_t count, DataType type, int to, int tag = 0, Stream stream = {});
  // from: a rank or kAnySource. Returns the sender. Count and type must be the sender's.
  int recv(void* output, std::size_t count, DataType type, int from, int tag = 0, Stream stream = {});

  template <class T>
  void all_reduce(std::span<const T> input, std::span<T> output, ReduceOp op = kSum, Stream stream = {});
  template <class T>
  void all_gather(std::span<const T> input, std::span<T> output, Stream stream = {});
  template <class T>
  void reduce_scatter(std::span<const T> input, std::span<T> output, ReduceOp op = kSum, Stream stream = {});
  template <class T>
  void broadcast(std::span<T> data, int root, Stream stream = {});
  template <class T>
  void reduce(std::span<const T> input, std::span<T> output, ReduceOp op, int root, Stream stream = {});
  template <class T>
  void gather(std::span<const T> input, std::span<T> output, int root, Stream stream = {});
  template <class T>
  void scatter(std::span<const T> input, std::span<T> output, int root, Stream stream = {});
  template <class T>
  void all_to_all(std::span<const T> input, std::span<T> output, Stream stream = {});
  template <class T>
  void send(std::span<const T> input, int to, int tag = 0, Stream stream = {});
  template <class T>
  int recv(std::span<T> output, int from, int tag = 0, Stream stream = {});

 private:
  class Impl;
  explicit Communicator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tutti

#include "tutti/communicator_spans.h"

#pragma once

// The std::span overloads of Communicator: sizes are checked against each other, then the untyped calls are made.
// Included by communicator.h.

#include <ranges>
#include <string>
#include <type_traits>

#include "tutti/communicator.h"

namespace tutti {
namespace detail {

inline void require_size(std::size_t actual, std::size_t expected, const char* what) {
  if (actual == expected) return;
  throw Error(ErrorCode::kInvalidArgument,
              std::string(what) + " has " + std::to_string(actual) + " elements, expected " + std::to_string(expected));
}

inline std::size_t block_size(std::size_t elements, int ranks, const char* what) {
  if (elements % static_cast<std::size_t>(ranks) == 0) return elements / static_cast<std::size_t>(ranks);
  throw Error(ErrorCode::kInvalidArgument, std::string(what) + " has " + std::to_string(elements) +
                                               " elements, which is no multiple of " + std::to_string(ranks) +
                                               " ranks");
}

// The blocks lie within the elements; a call without offsets uses all of them.
inline void require_blocks(std::size_t elements, std::span<const std::size_t> counts,
                           std::span<const std::size_t> offsets, int ranks, const char* what) {
  require_size(counts.size(), static_cast<std::size_t>(ranks), (std::string(what) + "'s list of counts").c_str());
  if (!offsets.empty()) {
    require_size(offsets.size(), counts.size(), (std::string(what) + "'s list of offsets").c_str());
  }
  std::size_t next = 0;
  for (std::size_t block = 0; block < counts.size(); ++block) {
    const std::size_t first = offsets.empty() ? next : offsets[block];
    if (counts[block] > elements || (counts[block] > 0 && first > elements - counts[block])) {
      throw Error(ErrorCode::kInvalidArgument, std::string(what) + " has " + std::to_string(elements) +
                                                   " elements, but its block " + std::to_string(block) + " has " +
                                                   std::to_string(counts[block]) + " from " + std::to_string(first));
    }
    next = first + counts[block];
  }
  if (offsets.empty()) require_size(elements, next, what);
}

template <class R>
using ElementOf = std::remove_cv_t<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

template <class T>
concept Element = requires {
  DataTypeOf<T>::value;
};

// The buffer as a span, with one readable complaint about what is no buffer of the library.
template <class R>
auto input_span(R& range) {
  using T = ElementOf<R>;
  static_assert(Element<T>, "tutti: elements of this type cannot be sent; see DataTypeOf in tutti/types.h");
  return std::span<const T>(std::ranges::data(range), std::ranges::size(range));
}

template <class T, class R>
auto output_span(R& range) {
  static_assert(std::is_same_v<ElementOf<R>, T>, "tutti: both buffers must have elements of the same type");
  static_assert(!std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>,
                "tutti: the output must not be const");
  return std::span<T>(std::ranges::data(range), std::ranges::size(range));
}

// A byte that is neither 0 nor 1 is no bool.
template <class T>
void require_op(ReduceOp op) {
  if constexpr (std::is_same_v<T, bool>) {
    using Kind = ReduceOp::Kind;
    if (op.kind() == Kind::kSum || op.kind() == Kind::kProd || op.kind() == Kind::kAvg ||
        op.kind() == Kind::kPreMulSum) {
      throw Error(ErrorCode::kInvalidArgument, std::string(name(op)) +
                                                   " of bool is not allowed: its result may be no bool. Use kMax (any "
                                                   "rank), kMin (all ranks) or kBxor");
    }
  }
}

}  // namespace detail

template <class T>
Work Communicator::all_reduce(std::span<const T> input, std::span<T> output, ReduceOp op, Stream stream) {
  detail::require_op<T>(op);
  detail::require_size(output.size(), input.size(), "all_reduce: output");
  return all_reduce(input.data(), output.data(), input.size(), data_type_of<T>, op, stream);
}

template <class T>
Work Communicator::all_gather(std::span<const T> input, std::span<T> output, Stream stream) {
  detail::require_size(output.size(), input.size() * static_cast<std::size_t>(ranks()), "all_gather: output");
  return all_gather(input.data(), output.data(), input.size(), data_type_of<T>, stream);
}

template <class T>
Work Communicator::reduce_scatter(std::span<const T> input, std::span<T> output, ReduceOp op, Stream stream) {
  detail::require_op<T>(op);
  detail::require_size(input.size(), output.size() * static_cast<std::size_t>(ranks()), "reduce_scatter: input");
  return reduce_scatter(input.data(), output.data(), output.size(), data_type_of<T>, op, stream);
}

template <class T>
Work Communicator::broadcast(std::span<T> data, int root, Stream stream) {
  return broadcast(data.data(), data.data(), data.size(), data_type_of<T>, root, stream);
}

template <class T>
Work Communicator::reduce(std::span<const T> input, std::span<T> output, ReduceOp op, int root, Stream stream) {
  detail::require_op<T>(op);
  if (rank() == root) detail::require_size(output.size(), input.size(), "reduce: output");
  return reduce(input.data(), output.data(), input.size(), data_type_of<T>, op, root, stream);
}

template <class T>
Work Communicator::gather(std::span<const T> input, std::span<T> output, int root, Stream stream) {
  if (rank() == root) {
    detail::require_size(output.size(), input.size() * static_cast<std::size_t>(ranks()), "gather: output");
  }
  return gather(input.data(), output.data(), input.size(), data_type_of<T>, root, stream);
}

template <class T>
Work Communicator::scatter(std::span<const T> input, std::span<T> output, int root, Stream stream) {
  if (rank() == root) {
    detail::require_size(input.size(), output.size() * static_cast<std::size_t>(ranks()), "scatter: input");
  }
  return scatter(input.data(), output.data(), output.size(), data_type_of<T>, root, stream);
}

template <class T>
Work Communicator::all_to_all(std::span<const T> input, std::span<T> output, Stream stream) {
  detail::require_size(output.size(), input.size(), "all_to_all: output");
  return all_to_all(input.data(), output.data(), detail::block_size(input.size(), ranks(), "all_to_all: input"),
                    data_type_of<T>, stream);
}

template <class T>
Work Communicator::all_gather_v(std::span<const T> input, std::span<T> output, std::span<const std::size_t> counts,
                                std::span<const std::size_t> offsets, Stream stream) {
  detail::require_blocks(output.size(), counts, offsets, ranks(), "all_gather_v: output");
  detail::require_size(input.size(), counts[static_cast<std::size_t>(rank())], "all_gather_v: input");
  return all_gather_v(input.data(), output.data(), counts, offsets, data_type_of<T>, stream);
}

template <class T>
Work Communicator::reduce_scatter_v(std::span<const T> input, std::span<T> output, std::span<const std::size_t> counts,
                                    std::span<const std::size_t> offsets, ReduceOp op, Stream stream) {
  detail::require_op<T>(op);
  detail::require_blocks(input.size(), counts, offsets, ranks(), "reduce_scatter_v: input");
  detail::require_size(output.size(), counts[static_cast<std::size_t>(rank())], "reduce_scatter_v: output");
  return reduce_scatter_v(input.data(), output.data(), counts, offsets, data_type_of<T>, op, stream);
}

template <class T>
Work Communicator::all_to_all_v(std::span<const T> input, std::span<const std::size_t> input_counts,
                                std::span<const std::size_t> input_offsets, std::span<T> output,
                                std::span<const std::size_t> output_counts, std::span<const std::size_t> output_offsets,
                                Stream stream) {
  detail::require_blocks(input.size(), input_counts, input_offsets, ranks(), "all_to_all_v: input");
  detail::require_blocks(output.size(), output_counts, output_offsets, ranks(), "all_to_all_v: output");
  return all_to_all_v(input.data(), input_counts, input_offsets, output.data(), output_counts, output_offsets,
                      data_type_of<T>, stream);
}

template <class T>
Work Communicator::send(std::span<const T> input, int to, int tag, Stream stream) {
  return send(input.data(), input.size(), data_type_of<T>, to, tag, stream);
}

template <class T>
Work Communicator::recv(std::span<T> output, int from, int tag, Stream stream) {
  return recv(output.data(), output.size(), data_type_of<T>, from, tag, stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::all_reduce(Input&& input, Output&& output, ReduceOp op, Stream stream) {
  using T = detail::ElementOf<Input>;
  return all_reduce<T>(detail::input_span(input), detail::output_span<T>(output), op, stream);
}

template <detail::Buffer Data>
Work Communicator::all_reduce(Data&& data, ReduceOp op, Stream stream) {
  return all_reduce(data, data, op, stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::all_gather(Input&& input, Output&& output, Stream stream) {
  using T = detail::ElementOf<Input>;
  return all_gather<T>(detail::input_span(input), detail::output_span<T>(output), stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::reduce_scatter(Input&& input, Output&& output, ReduceOp op, Stream stream) {
  using T = detail::ElementOf<Input>;
  return reduce_scatter<T>(detail::input_span(input), detail::output_span<T>(output), op, stream);
}

template <detail::Buffer Data>
Work Communicator::broadcast(Data&& data, int root, Stream stream) {
  using T = detail::ElementOf<Data>;
  static_assert(detail::Element<T>, "tutti: elements of this type cannot be sent; see DataTypeOf in tutti/types.h");
  return broadcast<T>(detail::output_span<T>(data), root, stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::reduce(Input&& input, Output&& output, ReduceOp op, int root, Stream stream) {
  using T = detail::ElementOf<Input>;
  return reduce<T>(detail::input_span(input), detail::output_span<T>(output), op, root, stream);
}

template <detail::Buffer Data>
Work Communicator::reduce(Data&& data, ReduceOp op, int root, Stream stream) {
  return reduce(data, data, op, root, stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::gather(Input&& input, Output&& output, int root, Stream stream) {
  using T = detail::ElementOf<Input>;
  return gather<T>(detail::input_span(input), detail::output_span<T>(output), root, stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::scatter(Input&& input, Output&& output, int root, Stream stream) {
  using T = detail::ElementOf<Input>;
  return scatter<T>(detail::input_span(input), detail::output_span<T>(output), root, stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::all_to_all(Input&& input, Output&& output, Stream stream) {
  using T = detail::ElementOf<Input>;
  return all_to_all<T>(detail::input_span(input), detail::output_span<T>(output), stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::all_gather_v(Input&& input, Output&& output, std::span<const std::size_t> counts,
                                std::span<const std::size_t> offsets, Stream stream) {
  using T = detail::ElementOf<Input>;
  return all_gather_v<T>(detail::input_span(input), detail::output_span<T>(output), counts, offsets, stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::reduce_scatter_v(Input&& input, Output&& output, std::span<const std::size_t> counts,
                                    std::span<const std::size_t> offsets, ReduceOp op, Stream stream) {
  using T = detail::ElementOf<Input>;
  return reduce_scatter_v<T>(detail::input_span(input), detail::output_span<T>(output), counts, offsets, op, stream);
}

template <detail::Buffer Input, detail::Buffer Output>
Work Communicator::all_to_all_v(Input&& input, std::span<const std::size_t> input_counts,
                                std::span<const std::size_t> input_offsets, Output&& output,
                                std::span<const std::size_t> output_counts, std::span<const std::size_t> output_offsets,
                                Stream stream) {
  using T = detail::ElementOf<Input>;
  return all_to_all_v<T>(detail::input_span(input), input_counts, input_offsets, detail::output_span<T>(output),
                         output_counts, output_offsets, stream);
}

template <detail::Buffer Input>
Work Communicator::send(Input&& input, int to, int tag, Stream stream) {
  return send<detail::ElementOf<Input>>(detail::input_span(input), to, tag, stream);
}

template <detail::Buffer Output>
Work Communicator::recv(Output&& output, int from, int tag, Stream stream) {
  using T = detail::ElementOf<Output>;
  static_assert(detail::Element<T>, "tutti: elements of this type cannot be sent; see DataTypeOf in tutti/types.h");
  return recv<T>(detail::output_span<T>(output), from, tag, stream);
}

}  // namespace tutti

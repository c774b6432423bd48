#pragma once
// The reduction loops. Compiled once per instruction set: the rule of
// reduce_loops_elements.hpp applies here, too.
//
// The range is processed in blocks. Few sources are combined and written in one
// pass. More sources are accumulated, block by block, in a scratch array that
// stays in the L1 cache; the last source is combined while writing the output.
// So each source is read once from memory, each output is written once, and an
// output that is also a source is still in the cache when it is written.

#include "sheaf/comm/kernels/reduce_loops_elements.hpp"
#include "sheaf/comm/kernels/reduce_loops_ops.hpp"
#include "sheaf/comm/kernels/reduce_loops_stream.hpp"
#include "sheaf/comm/kernels/reduce_loops_table.hpp"

// An output may be the same array as a source. Loop iterations are still
// independent, but the compiler cannot know that.
#if defined(__clang__)
#define SHEAF_INDEPENDENT_TURNS _Pragma("clang loop vectorize(assume_safety)")
#else
#define SHEAF_INDEPENDENT_TURNS _Pragma("GCC ivdep")
#endif

namespace sheaf::comm {
namespace {

constexpr std::size_t kBlockBytes = 8192;  // size of the scratch array

template <class E>
struct FromBuffer {
  const typename E::Stored* data;
  typename E::Value get(std::size_t i) const { return E::load(data + i); }
};
template <class E>
struct FromScratch {
  const typename E::Accumulated* data;
  typename E::Value get(std::size_t i) const {
    return load_bytes<typename E::Value>(data + i);
  }
};
template <class E>
struct ToScratch {
  typename E::Accumulated* data;
  void put(std::size_t i, typename E::Value value) const {
    store_bytes(data + i, value);
  }
};
// Writes the same values to Count buffers, 1 to 4.
template <class E, int Count>
struct ToBuffers {
  typename E::Written* first;
  typename E::Written* second = nullptr;
  typename E::Written* third = nullptr;
  typename E::Written* fourth = nullptr;
  void put(std::size_t i, typename E::Value value) const {
    E::store(first + i, value);
    if constexpr (Count > 1) E::store(second + i, value);
    if constexpr (Count > 2) E::store(third + i, value);
    if constexpr (Count > 3) E::store(fourth + i, value);
  }
};

// Not inlined, so that all callers share one copy of each loop.
template <class E, class Op, class Finish, class Out, class First,
          class... Others>
[[gnu::noinline]] void combine(Finish finish, Out out, std::size_t count,
                               First first, Others... others) {
  SHEAF_INDEPENDENT_TURNS
  for (std::size_t i = 0; i < count; i += E::kLanes) {
    typename E::Value value = first.get(i);
    ((value = Op::apply(value, others.get(i))), ...);
    out.put(i, finish(value));
  }
}

// The sources and outputs of `args`, from element `begin` on.
template <class E>
struct Block {
  const ReduceArgs& args;
  std::size_t begin;
  std::size_t count;

  FromBuffer<E> source(std::size_t k) const {
    return {static_cast<const typename E::Stored*>(args.sources[k]) + begin};
  }
  typename E::Written* output(std::size_t k) const {
    return static_cast<typename E::Written*>(args.outputs[k]) + begin;
  }
};

template <class E, class Op, class Finish, class... Sources>
inline void combine_and_stream(const Block<E>& block, Finish finish,
                               Sources... sources) {
  using Written = typename E::Written;
  alignas(64) Written staged[kBlockBytes / sizeof(typename E::Accumulated)];
  combine<E, Op>(finish, ToBuffers<E, 1>{staged}, block.count, sources...);
  for (std::size_t k = 0; k < block.args.output_count; ++k)
    stream_copy(block.output(k), staged, block.count * sizeof(Written));
}

// Writes to the first output, and copies the block to the others while it is in
// the cache.
template <class E, class Op, class Finish, class... Sources>
inline void combine_and_copy(const Block<E>& block, Finish finish,
                             Sources... sources) {
  if (block.args.stream)
    return combine_and_stream<E, Op>(block, finish, sources...);
  combine<E, Op>(finish, ToBuffers<E, 1>{block.output(0)}, block.count,
                 sources...);
  for (std::size_t k = 1; k < block.args.output_count; ++k)
    __builtin_memcpy(block.output(k), block.output(0),
                     block.count * sizeof(typename E::Written));
}

// An all-reduce within a host has as many outputs as sources, all in place.
// These are written in the same pass.
template <class E, class Op, class Finish, class... Sources>
inline void combine_in_one_pass(const Block<E>& block, Finish finish,
                                Sources... sources) {
  constexpr std::size_t kCount = sizeof...(sources);
  if (block.args.output_count != kCount || block.args.stream)
    return combine_and_copy<E, Op>(block, finish, sources...);
  const auto output = [&](std::size_t k) {
    return k < kCount ? block.output(k) : nullptr;
  };
  const ToBuffers<E, kCount> all{output(0), output(1), output(2), output(3)};
  combine<E, Op>(finish, all, block.count, sources...);
}

template <class E, class Op, class Finish>
inline void combine_in_scratch(const Block<E>& block, Finish finish) {
  using Scratch = typename E::Accumulated;
  alignas(64) Scratch scratch[kBlockBytes / sizeof(Scratch)];
  const FromScratch<E> partial{scratch};
  const ToScratch<E> out{scratch};
  combine<E, Op>(Keep{}, out, block.count, block.source(0), block.source(1));
  const std::size_t last = block.args.source_count - 1;
  for (std::size_t k = 2; k < last; ++k)
    combine<E, Op>(Keep{}, out, block.count, partial, block.source(k));
  combine_and_copy<E, Op>(block, finish, partial, block.source(last));
}

template <class E, class Op, class Finish>
inline void reduce_block(const Block<E>& block, Finish finish) {
  const auto source = [&](std::size_t k) { return block.source(k); };
  const std::size_t count = block.args.source_count;
  if (count == 1) return combine_and_copy<E, Op>(block, finish, source(0));
  if (count == 2)
    return combine_in_one_pass<E, Op>(block, finish, source(0), source(1));
  // Only sums, which gradients use, have a loop for each number of sources:
  // loops for all operations would make the library large.
  if constexpr (Op::kOften) {
    if (count == 3)
      return combine_in_one_pass<E, Op>(block, finish, source(0), source(1),
                                        source(2));
    if (count == 4)
      return combine_in_one_pass<E, Op>(block, finish, source(0), source(1),
                                        source(2), source(3));
  }
  combine_in_scratch<E, Op>(block, finish);
}

template <class E, class Op, class Finish>
inline void reduce_all(const ReduceArgs& args, Finish finish) {
  constexpr std::size_t kBlock = kBlockBytes / sizeof(typename E::Accumulated);
  const std::size_t tail = args.count % E::kLanes;
  const std::size_t whole = args.count - tail;
  for (std::size_t begin = 0; begin < whole; begin += kBlock) {
    const std::size_t left = whole - begin;
    reduce_block<E, Op>(Block<E>{args, begin, left < kBlock ? left : kBlock},
                        finish);
  }
  if constexpr (E::kLanes > 1)
    reduce_block<typename E::Tail, Op>({args, whole, tail}, finish);
  if (args.stream) end_streaming();
}

}  // namespace
}  // namespace sheaf::comm

#pragma once
// The reduction loops. Compiled once per instruction set: the rule of
// reduce_loops_elements.hpp holds here too.
//
// The range is cut into blocks. Two sources are combined and written in one
// pass. More are accumulated, a block at a time, in a scratch array that stays
// in the first-level cache; the last source is combined on the way out. So
// each source is read once from memory and each output written once, and an
// output that is also a source is still in the cache when it is written.

#include "sheaf/comm/reduce_loops_elements.hpp"
#include "sheaf/comm/reduce_loops_ops.hpp"
#include "sheaf/comm/reduce_loops_table.hpp"

// The outputs may be the sources, at the same index: no turn of a loop depends
// on another, but the compiler cannot know.
#if defined(__clang__)
#define SHEAF_INDEPENDENT_TURNS _Pragma("clang loop vectorize(assume_safety)")
#else
#define SHEAF_INDEPENDENT_TURNS _Pragma("GCC ivdep")
#endif

namespace sheaf::comm {
namespace {

constexpr std::size_t kBlockBytes = 8192;  // of the scratch array

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
template <class E>
struct ToBuffer {
  typename E::Stored* data;
  void put(std::size_t i, typename E::Value value) const {
    E::store(data + i, value);
  }
};
template <class E>
struct ToTwoBuffers {
  typename E::Stored* first;
  typename E::Stored* second;
  void put(std::size_t i, typename E::Value value) const {
    E::store(first + i, value);
    E::store(second + i, value);
  }
};

template <class E, class Op, class A, class B, class Finish, class Out>
inline void combine(A a, B b, Finish finish, Out out, std::size_t count) {
  SHEAF_INDEPENDENT_TURNS
  for (std::size_t i = 0; i < count; i += E::kLanes)
    out.put(i, finish(Op::apply(a.get(i), b.get(i))));
}

template <class E, class A, class Finish, class Out>
inline void convert(A a, Finish finish, Out out, std::size_t count) {
  SHEAF_INDEPENDENT_TURNS
  for (std::size_t i = 0; i < count; i += E::kLanes)
    out.put(i, finish(a.get(i)));
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
  typename E::Stored* output(std::size_t k) const {
    return static_cast<typename E::Stored*>(args.outputs[k]) + begin;
  }
};

template <class E>
inline void copy_to_outputs_from(std::size_t first, const Block<E>& block) {
  for (std::size_t k = first; k < block.args.output_count; ++k)
    __builtin_memcpy(block.output(k), block.output(0),
                     block.count * sizeof(typename E::Stored));
}

template <class E, class Op, class A, class Finish>
inline void combine_last(A a, FromBuffer<E> b, Finish finish,
                         const Block<E>& block) {
  if (block.args.output_count == 1) {
    combine<E, Op>(a, b, finish, ToBuffer<E>{block.output(0)}, block.count);
    return;
  }
  combine<E, Op>(a, b, finish,
                 ToTwoBuffers<E>{block.output(0), block.output(1)},
                 block.count);
  copy_to_outputs_from(/*first=*/2, block);
}

template <class E, class Op, class Finish>
inline void combine_many(const Block<E>& block, Finish finish) {
  using Scratch = typename E::Accumulated;
  alignas(64) Scratch scratch[kBlockBytes / sizeof(Scratch)];
  const FromScratch<E> partial{scratch};
  const ToScratch<E> out{scratch};
  combine<E, Op>(block.source(0), block.source(1), Keep{}, out, block.count);
  const std::size_t last = block.args.source_count - 1;
  for (std::size_t k = 2; k < last; ++k)
    combine<E, Op>(partial, block.source(k), Keep{}, out, block.count);
  combine_last<E, Op>(partial, block.source(last), finish, block);
}

template <class E, class Op, class Finish>
inline void reduce_block(const Block<E>& block, Finish finish) {
  switch (block.args.source_count) {
    case 1:
      convert<E>(block.source(0), finish, ToBuffer<E>{block.output(0)},
                 block.count);
      return copy_to_outputs_from(/*first=*/1, block);
    case 2:
      return combine_last<E, Op>(block.source(0), block.source(1), finish,
                                 block);
    default:
      return combine_many<E, Op>(block, finish);
  }
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
}

}  // namespace
}  // namespace sheaf::comm

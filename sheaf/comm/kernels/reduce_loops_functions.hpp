#pragma once
// The function table of one instruction set. Compiled once per instruction set:
// the rule of reduce_loops_elements.hpp applies here, too.

#include "sheaf/comm/kernels/reduce_loops.hpp"

namespace sheaf::comm {
namespace {

template <class E, class Op>
void reduce_with(const ReduceArgs& args) {
  reduce_all<E, Op>(args, Keep{});
}

// F is the type in which results are divided.
template <class E, class F>
void sum_floats(const ReduceArgs& args) {
  const int divisor = args.divisor;
  if (divisor == 1) return reduce_all<E, Sum>(args, Keep{});
  const F exact = static_cast<F>(divisor);
  if ((divisor & (divisor - 1)) == 0)
    return reduce_all<E, Sum>(args, Scale<F>{F{1} / exact});
  reduce_all<E, Sum>(args, Divide<F>{exact});
}

template <class E, class Finish>
void sum_integers(const ReduceArgs& args) {
  if (args.divisor == 1) return reduce_all<E, Sum>(args, Keep{});
  reduce_all<E, Sum>(
      args, Finish{static_cast<decltype(Finish::divisor)>(args.divisor)});
}

using Row = ReduceTable::Row;

template <class E, class F>
constexpr Row row_of_floats() {
  return {sum_floats<E, F>,
          sum_floats<E, F>,
          reduce_with<E, Product>,
          reduce_with<E, Min>,
          reduce_with<E, Max>,
          nullptr,
          nullptr,
          nullptr};
}

template <class Int, class Unsigned, class Finish>
constexpr Row row_of_integers() {
  return {sum_integers<Plain<Unsigned>, Finish>,
          sum_integers<Plain<Unsigned>, Finish>,
          reduce_with<Plain<Unsigned>, Product>,
          reduce_with<Plain<Int>, Min>,
          reduce_with<Plain<Int>, Max>,
          reduce_with<Plain<Unsigned>, BitAnd>,
          reduce_with<Plain<Unsigned>, BitOr>,
          reduce_with<Plain<Unsigned>, BitXor>};
}

constexpr Row row_of_truths() {
  return {reduce_with<Truth, BitOr>,  nullptr,
          reduce_with<Truth, BitAnd>, reduce_with<Truth, BitAnd>,
          reduce_with<Truth, BitOr>,  reduce_with<Truth, BitAnd>,
          reduce_with<Truth, BitOr>,  reduce_with<Truth, BitXor>};
}

template <class E>
constexpr ReduceTable::Partials partials_of_halves() {
  ReduceTable::Partials partials{};
  partials.made = {reduce_with<ToPartial<E>, Sum>,
                   reduce_with<ToPartial<E>, Sum>,
                   reduce_with<ToPartial<E>, Product>};
  partials.finished = {sum_floats<FromPartial<E>, float>,
                       sum_floats<FromPartial<E>, float>,
                       reduce_with<FromPartial<E>, Product>};
  return partials;
}

// In the order of DType.
constexpr ReduceTable make_table(const char* name) {
  using std::int16_t, std::int32_t, std::int64_t, std::int8_t;
  using std::uint16_t, std::uint32_t, std::uint64_t, std::uint8_t;
  return {name,
          {row_of_floats<Plain<double>, double>(),
           row_of_floats<Plain<float>, float>(),
           row_of_floats<Binary16, float>(), row_of_floats<Brain, float>(),
           row_of_integers<int64_t, uint64_t, TruncateWide>(),
           row_of_integers<int32_t, uint32_t, Truncate<int32_t, double>>(),
           row_of_integers<int16_t, uint16_t, Truncate<int16_t, float>>(),
           row_of_integers<int8_t, uint8_t, Truncate<int8_t, float>>(),
           row_of_integers<uint8_t, uint8_t, Truncate<uint8_t, float>>(),
           row_of_truths()},
          {partials_of_halves<Binary16>(), partials_of_halves<Brain>()}};
}

}  // namespace
}  // namespace sheaf::comm

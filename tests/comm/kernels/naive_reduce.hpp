#pragma once
// Reductions one element at a time, as a reference for the loops.

#include <cmath>
#include <cstddef>
#include <type_traits>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::comm::naive {

template <class T>
inline constexpr bool is_half_type =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class T>
auto widen(T value) {
  if constexpr (is_half_type<T>)
    return to_float(value);
  else
    return value;
}

template <class T>
T narrow(auto value) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(value);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(value);
  else
    return value;
}

template <class A>
A naive_float(ReduceOp op, A a, A b) {
  switch (op) {
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return std::isnan(a) || a <= b ? a : b;
    case ReduceOp::kMax:
      return std::isnan(a) || a >= b ? a : b;
    default:
      return a + b;
  }
}

// Integers are computed as unsigned 64-bit values and truncated: arithmetic
// modulo 2^64 has the same low bits as arithmetic modulo a smaller power.
template <class A>
A naive_integer(ReduceOp op, A a, A b) {
  const auto x = static_cast<std::uint64_t>(a);
  const auto y = static_cast<std::uint64_t>(b);
  switch (op) {
    case ReduceOp::kProduct:
      return static_cast<A>(x * y);
    case ReduceOp::kMin:
      return a < b ? a : b;
    case ReduceOp::kMax:
      return a > b ? a : b;
    case ReduceOp::kBitAnd:
      return static_cast<A>(x & y);
    case ReduceOp::kBitOr:
      return static_cast<A>(x | y);
    case ReduceOp::kBitXor:
      return static_cast<A>(x ^ y);
    default:
      return static_cast<A>(x + y);
  }
}

inline bool naive_bool(ReduceOp op, bool a, bool b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kMax:
    case ReduceOp::kBitOr:
      return a || b;
    case ReduceOp::kBitXor:
      return a != b;
    default:
      return a && b;
  }
}

template <class A>
A naive_op(ReduceOp op, A a, A b) {
  if constexpr (std::is_same_v<A, bool>)
    return naive_bool(op, a, b);
  else if constexpr (std::is_floating_point_v<A>)
    return naive_float(op, a, b);
  else
    return naive_integer(op, a, b);
}

template <class T>
T naive_element(ReduceOp op, int divisor,
                const std::vector<std::vector<T>>& sources, std::size_t i) {
  auto value = widen(sources[0][i]);
  for (std::size_t k = 1; k < sources.size(); ++k)
    value = naive_op(op, value, widen(sources[k][i]));
  if (divisor != 1)
    value = static_cast<decltype(value)>(
        value /
        static_cast<
            std::conditional_t<std::is_floating_point_v<decltype(value)>,
                               decltype(value), std::int64_t>>(divisor));
  return narrow<T>(value);
}

}  // namespace sheaf::comm::naive

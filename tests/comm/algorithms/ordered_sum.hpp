#pragma once
// Data whose sums depend on the order of additions, and their sums in rank
// order, which `reproducible` guarantees.

#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "sheaf/comm/kernels/reduce_kernels.hpp"

namespace sheaf::test {

template <class T>
T narrowed(double value) {
  const auto single = static_cast<float>(value);
  if constexpr (std::is_same_v<T, Half>)
    return to_half(single);
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(single);
  else
    return static_cast<T>(value);
}

template <class T>
auto widened(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return to_float(value);
  else
    return value;
}

// Values of very different magnitudes with, if the type allows, all mantissa
// bits in use, so that different orders almost always give different sums.
template <class T>
std::vector<T> rough_data(int rank, std::size_t count) {
  std::minstd_rand random(static_cast<unsigned>(rank) * 7919 + 1);
  std::vector<T> data;
  for (std::size_t i = 0; i < count; ++i) {
    const double large = static_cast<double>(random() % 20001) - 10000;
    const double fine = static_cast<double>(random() % 1000003) * 0x1p-38;
    data.push_back(narrowed<T>(
        std::ldexp(large + fine, static_cast<int>(random() % 8) - 14)));
  }
  return data;
}

// Sums in rank order; 16-bit types in f32, rounded at the end; an average is
// divided once, before that rounding.
template <class T>
std::vector<T> ordered_sum(int ranks, std::size_t count, comm::ReduceOp op) {
  std::vector<decltype(widened(T{}))> sum;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto data = rough_data<T>(rank, count);
    if (rank == 0) sum.assign(count, 0);
    for (std::size_t i = 0; i < count; ++i)
      sum[i] = rank == 0 ? widened(data[i]) : sum[i] + widened(data[i]);
  }
  std::vector<T> result;
  for (auto value : sum) {
    if (op == comm::ReduceOp::kAvg)
      value /= static_cast<decltype(value)>(ranks);
    result.push_back(narrowed<T>(value));
  }
  return result;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() ||
          std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

}  // namespace sheaf::test

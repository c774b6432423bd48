#pragma once
// Normally distributed numbers that depend only on a seed.

#include <torch/torch.h>

#include "plain/dice.hpp"

namespace differential {

// In f64, on the CPU.
inline at::Tensor random_tensor(at::IntArrayRef sizes, std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::TensorOptions(at::kDouble));
}

inline at::Tensor random_words(at::IntArrayRef sizes, std::int64_t words,
                               std::uint64_t seed) {
  auto generator = at::detail::createCPUGenerator(seed);
  return at::randint(words, sizes, generator, at::TensorOptions(at::kLong));
}

}  // namespace differential

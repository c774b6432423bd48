// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", 2014): a counter with an odd increment, hashed. The key is the
// start value of the counter.
#include "sheaf/data/dataset/random.hpp"

#include <bit>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

std::uint64_t scramble(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

}  // namespace

Random::Random(std::uint64_t seed) : key_(scramble(seed + kStep)) {}

Random Random::derive(std::uint64_t key) const {
  Random result;
  // Each is hashed differently before the sum, so that (1, 2) and (2, 1)
  // differ.
  result.key_ = scramble(scramble(key_ + kStep) + scramble(key + 2 * kStep));
  return result;
}

std::uint64_t Random::next() { return scramble(key_ + ++count_ * kStep); }

std::uint64_t Random::below(std::uint64_t limit) {
  SHEAF_CHECK(limit > 0, "Random::below() needs a limit of at least 1");
  // Rejection sampling: a remainder would be biased to small numbers.
  const std::uint64_t mask =
      limit == 1 ? 0 : ~std::uint64_t{0} >> std::countl_zero(limit - 1);
  std::uint64_t number = next() & mask;
  while (number >= limit) number = next() & mask;
  return number;
}

double Random::uniform() {
  return static_cast<double>(next() >> 11) * 0x1.0p-53;
}

}  // namespace sheaf::data

#pragma once
// Random numbers that are a function of their key alone: the same on every
// machine, compiler and standard library, and without a hidden state.

#include <cstdint>

namespace sheaf::data {

// A stream of numbers, made from a key. Streams with different keys are
// independent. A stream is for one thread; copies go on from where it stood.
class Random {
 public:
  explicit Random(std::uint64_t seed = 0);

  // The stream of `key` below this one, wherever this one stands. So
  // Random(seed).derive(epoch).derive(index) belongs to one example of one
  // epoch, whichever rank or thread draws from it, and in which order.
  Random derive(std::uint64_t key) const;

  std::uint64_t next();                      // 64 random bits
  std::uint64_t below(std::uint64_t limit);  // 0 to limit-1; limit is not 0
  double uniform();                          // 0 to 1, without 1
  // As if next() had been called so many times.
  void skip(std::uint64_t numbers) { count_ += numbers; }

 private:
  std::uint64_t key_;
  std::uint64_t count_ = 0;
};

}  // namespace sheaf::data

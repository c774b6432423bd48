#pragma once
// Random numbers that depend only on their key: the same on every machine,
// compiler and standard library, without global state.

#include <cstdint>

namespace sheaf::data {

// A stream of random numbers with a key. Streams with different keys are
// independent. Not thread-safe; a copy continues from the current position.
class Random {
 public:
  explicit Random(std::uint64_t seed = 0);

  // The substream for `key`, regardless of the position of this stream. Thus
  // Random(seed).derive(epoch).derive(index) is the stream of one example in
  // one epoch, whichever rank or thread uses it, and in any order.
  Random derive(std::uint64_t key) const;

  std::uint64_t next();                      // 64 random bits
  std::uint64_t below(std::uint64_t limit);  // 0 to limit-1; limit >= 1
  double uniform();                          // in [0, 1)
  // Equivalent to calling next() `numbers` times.
  void skip(std::uint64_t numbers) { count_ += numbers; }

 private:
  std::uint64_t key_;
  std::uint64_t count_ = 0;
};

}  // namespace sheaf::data

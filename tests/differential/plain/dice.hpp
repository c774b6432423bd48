#pragma once
// Random numbers that are equal in every process and with every library
// (splitmix64).

#include <cstdint>
#include <initializer_list>

namespace differential {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  std::int64_t in(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(
                     next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool one_in(std::int64_t count) { return in(1, count) == 1; }
  template <class T>
  T one_of(std::initializer_list<T> list) {
    return *(list.begin() + in(0, static_cast<std::int64_t>(list.size()) - 1));
  }

 private:
  std::uint64_t state_;
};

// A seed that depends on all given parts.
inline std::uint64_t mixed(std::initializer_list<std::uint64_t> parts) {
  std::uint64_t seed = 0;
  for (const std::uint64_t part : parts) seed = Dice(seed ^ part).next();
  return seed;
}

}  // namespace differential

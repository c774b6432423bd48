#pragma once
// Replaces libsodium's random numbers, so that an input always has the same
// result.

#include <sodium.h>

#include <cstdint>

namespace sheaf::fuzz {

inline std::uint64_t& random_state() {
  static std::uint64_t state = 0;
  return state;
}

inline std::uint32_t next_random() {  // splitmix64
  std::uint64_t z = random_state() += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<std::uint32_t>(z >> 32);
}

// Call it at the beginning of each input.
inline void fix_random() {
  static randombytes_implementation fixed{
      .implementation_name = [] { return "fixed"; },
      .random = next_random,
      .stir = nullptr,
      .uniform = nullptr,
      .buf =
          [](void* const to, const std::size_t size) {
            auto* const bytes = static_cast<std::uint8_t*>(to);
            for (std::size_t i = 0; i < size; ++i)
              bytes[i] = static_cast<std::uint8_t>(next_random());
          },
      .close = nullptr};
  static const bool is_set = [] {
    randombytes_set_implementation(&fixed);
    return sodium_init() >= 0;
  }();
  random_state() = is_set ? 1 : 0;
}

}  // namespace sheaf::fuzz

#pragma once
// A fuzz target passes any bytes to one parser, which must either accept them
// or throw sheaf::Error; the target catches that. Every other exception, a
// signal, a report of a sanitizer, and excessive memory or time are defects.
//
// targets/<name>.cpp defines the target <name>. corpus/<name>/ holds its
// inputs: seeds, and those that revealed defects (regression-<what>).
// dictionaries/<name>.dict holds words of the format. `make fuzz` generates
// inputs; fuzz_replay runs the stored ones.

#include <cstdint>
#include <map>
#include <span>
#include <string>

namespace sheaf::fuzz {

using Input = std::span<const std::uint8_t>;
using Target = void (*)(Input);

// All targets, by name.
inline std::map<std::string, Target>& targets() {
  static std::map<std::string, Target> all;
  return all;
}

inline bool add_target(const char* name, Target target) {
  return targets().emplace(name, target).second;
}

}  // namespace sheaf::fuzz

// SHEAF_FUZZ_TARGET(npy) { parse(input); }  // once per file
#define SHEAF_FUZZ_TARGET(name)                        \
  static void fuzz_##name(sheaf::fuzz::Input input);   \
  [[maybe_unused]] static const bool is_added_##name = \
      sheaf::fuzz::add_target(#name, fuzz_##name);     \
  static void fuzz_##name([[maybe_unused]] sheaf::fuzz::Input input)

#pragma once
// DDL's option strings: "-mode b:4x3 -dump_iter 100 -dbg_level 1".

#include <optional>
#include <string>
#include <string_view>

#include "sheaf/topo/dims.hpp"

namespace sheaf::topo {

// How the tiers of an all-reduce are done; the values are DDL's letters.
enum class Mode : char {
  kRing = 'r',     // one ring per tier
  kMpi = 'm',      // MPI's reduce_scatter and allgatherv
  kNccl = 'n',     // NCCL where there is one, else ring
  kBest = 'b',     // the best for each tier by predicted time
  kExplore = 'p',  // tries, and keeps the fastest for each tier and size
};

std::string_view name_of(Mode mode) noexcept;  // "ring", "best" ...
inline char letter_of(Mode mode) noexcept { return static_cast<char>(mode); }

struct Options {
  Mode mode = Mode::kBest;
  std::optional<Dims> dims;              // -mode b:4x3
  int dump_iter = 0;                     // report every N calls; 0: never
  int dbg_level = 0;                     // 0 none, 1 mild, 2 detailed
  bool reproducible = false;             // bits independent of the topology
  std::optional<std::string> algorithm;  // forced; see parse_algorithm
  std::optional<int> timeout_ms;         // -timeout 30s, 500ms, 5m
  std::string machine;                   // path of a machine.json, or empty

  bool operator==(const Options&) const = default;
};

// Reads an option string; an empty one gives the defaults. UsageError names
// the option, its value, and what is allowed.
Options parse_options(std::string_view text);

// What SHEAF_OPTIONS says; the defaults when it is not set.
Options options_from_environment();

// The option string that parse_options reads as `options`.
std::string text_of(const Options& options);

}  // namespace sheaf::topo

#pragma once
// Option strings as in DDL: "-mode b:4x3 -dump_iter 100 -dbg_level 1".

#include <optional>
#include <string>
#include <string_view>

#include "sheaf/topo/dims.hpp"

namespace sheaf::topo {

// Algorithms for the tiers of an all-reduce; the values are DDL's letters.
enum class Mode : char {
  kRing = 'r',     // one ring per tier
  kMpi = 'm',      // MPI's reduce_scatter and allgatherv
  kNccl = 'n',     // NCCL if available, otherwise ring
  kBest = 'b',     // the best for each tier by predicted time
  kExplore = 'p',  // measures, and uses the fastest for each tier and size
};

std::string_view name_of(Mode mode) noexcept;  // "ring", "best" ...
inline char letter_of(Mode mode) noexcept { return static_cast<char>(mode); }

struct Options {
  Mode mode = Mode::kBest;
  std::optional<Dims> dims;              // -mode b:4x3
  int dump_iter = 0;                     // report every N calls; 0: never
  int dbg_level = 0;                     // 0 none, 1 brief, 2 detailed
  bool reproducible = false;             // result independent of the topology
  std::optional<std::string> algorithm;  // forced; see parse_algorithm
  std::optional<int> timeout_ms;         // -timeout 30s, 500ms, 5m
  std::string machine;                   // path of a machine.json, or empty

  bool operator==(const Options&) const = default;
};

// Parses an option string; an empty one gives the defaults. Throws UsageError,
// which names the option, its value, and the allowed values.
Options parse_options(std::string_view text);

// Parses SHEAF_OPTIONS; returns the defaults if it is not set.
Options options_from_environment();

// The option string that parse_options() parses to `options`.
std::string text_of(const Options& options);

}  // namespace sheaf::topo

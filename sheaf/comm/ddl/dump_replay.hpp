#pragma once
// The reduction of a dump done again, out of the dumped inputs.

#include <span>
#include <vector>

#include "sheaf/comm/ddl/dump.hpp"

namespace sheaf::comm {

struct DumpedElement {
  Finding found;               // the output against the reference
  double replayed = 0;         // reduced again in the element type
  std::vector<double> inputs;  // by rank
};

struct Replay {
  // Which elements: all, when all ranks' dumps are there, else the window
  // around the worst one.
  bool is_whole = false;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  Verdict output;    // the dumped output against the reference
  Verdict replayed;  // the inputs reduced in the order of ranks, in the type
  std::uint64_t different_bits = 0;  // elements of output that replay differs
  std::vector<DumpedElement> wrong;  // the first of them

  // One sentence: what agrees with what, and what follows.
  std::string conclusion(const Dump& dump) const;
};

// Of the first dump's output. The others are of the same call, in any order;
// UsageError where they are not, or a rank comes twice. `most_wrong` limits
// Replay::wrong.
Replay replay(std::span<const Dump> dumps, std::size_t most_wrong = 10);

// Whether both are of one call, so that they can be replayed together.
bool is_same_call(const Dump& a, const Dump& b);

// Of the elements of an input or output.
struct ElementStatistics {
  std::uint64_t count = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  double min = 0;  // of the finite ones, as the rest
  double max = 0;
  double mean = 0;
};
ElementStatistics statistics_of(DType dtype,
                                const std::vector<std::byte>& data);

}  // namespace sheaf::comm

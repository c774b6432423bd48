#pragma once
// Repeats the reduction of a dump from the dumped inputs.

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
  // The replayed elements: all of them if the dumps of all ranks are given,
  // otherwise the window around the worst element.
  bool is_whole = false;
  std::uint64_t first = 0;
  std::uint64_t count = 0;
  Verdict output;    // the dumped output against the reference
  Verdict replayed;  // the inputs reduced in rank order, in the element type
  std::uint64_t different_bits = 0;  // elements that differ from the replay
  std::vector<DumpedElement> wrong;  // the first wrong elements

  // One sentence: which results agree with the reference, and the likely cause.
  std::string conclusion(const Dump& dump) const;
};

// Replays the output of the first dump. The other dumps must be of the same
// call, in any order. Throws UsageError if they are not, or if a rank appears
// twice. `most_wrong` limits the size of Replay::wrong.
Replay replay(std::span<const Dump> dumps, std::size_t most_wrong = 10);

// Whether both dumps are of the same call, so that they can be replayed
// together.
bool is_same_call(const Dump& a, const Dump& b);

// Statistics of the elements of an input or output.
struct ElementStatistics {
  std::uint64_t count = 0;
  std::uint64_t nan = 0;
  std::uint64_t infinite = 0;
  double min = 0;  // min, max and mean are over the finite elements
  double max = 0;
  double mean = 0;
};
ElementStatistics statistics_of(DType dtype,
                                const std::vector<std::byte>& data);

}  // namespace sheaf::comm

#pragma once
// Times several implementations of the same operation, interleaved, so that
// other load on the machine affects all of them equally.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "sheaf/base/statistics.hpp"
#include "sheaf/comm/group/group.hpp"

namespace sheaf::cli {

struct Contestant {
  std::function<void(std::size_t iteration)> run;  // on all ranks
  std::size_t warmup = 5;                          // untimed iterations
};

struct RaceOptions {
  int blocks = 0;        // 0: as many as fit in the time, 11 to 101
  int iterations = 0;    // per block; 0: as many as fit in the time
  double seconds = 0.2;  // for all blocks of a contestant
};

struct Timing {
  Summary us;          // microseconds per iteration, over the blocks
  int iterations = 0;  // per block
};

inline constexpr int kMaxIterations = 1000;  // per block, unless given

// Runs one block of each contestant, then the next block of each, and so on. A
// block is a barrier followed by back-to-back iterations; its time is that of
// the slowest rank, divided by the iterations. All ranks must call it; all get
// the same result.
std::vector<Timing> race(const comm::Group& group,
                         std::span<const Contestant> contestants,
                         const RaceOptions& options);

// The element-wise maximum and the sum over the ranks of the group. Not
// optimized for speed. All ranks must call them.
std::vector<double> largest(const comm::Group& group,
                            std::vector<double> values);
std::int64_t total(const comm::Group& group, std::int64_t value);

}  // namespace sheaf::cli

#pragma once
// Times several ways of doing the same thing, in turns, so that whatever else
// the machine does meanwhile hits all of them alike.

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "sheaf/base/statistics.hpp"
#include "sheaf/comm/group/group.hpp"

namespace sheaf::cli {

struct Contestant {
  std::function<void(std::size_t iteration)> run;  // on all ranks
  std::size_t warmup = 5;  // iterations before any is timed
};

struct RaceOptions {
  int blocks = 0;        // 0: as many as fit the time, 11 to 101
  int iterations = 0;    // of one block; 0: as many as fit the time
  double seconds = 0.2;  // for all blocks of a contestant
};

struct Timing {
  Summary us;          // one iteration, in microseconds, over the blocks
  int iterations = 0;  // of one block
};

inline constexpr int kMaxIterations = 1000;  // of one block, unless given

// One block of each contestant, then the next block of each, and so on. A
// block is a barrier, then iterations back to back; its time is that of the
// slowest rank, divided by the iterations. All ranks call it and get the same.
std::vector<Timing> race(const comm::Group& group,
                         std::span<const Contestant> contestants,
                         const RaceOptions& options);

// Reduces over the ranks of the group; for figures, not for speed.
std::vector<double> largest(const comm::Group& group,
                            std::vector<double> values);
std::int64_t total(const comm::Group& group, std::int64_t value);

}  // namespace sheaf::cli

#include "sheaf/cli/bench/bench_race.hpp"

#include <algorithm>
#include <chrono>

#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTrialUs = 2000;
constexpr double kMinBlocks = 11;
constexpr double kMaxBlocks = 101;

int iterations_for(const RaceOptions& options, double trial_us) {
  if (options.iterations > 0) return options.iterations;
  const double blocks = options.blocks > 0 ? options.blocks : kMinBlocks;
  return static_cast<int>(std::clamp(options.seconds * 1e6 / blocks / trial_us,
                                     1.0, kMaxIterations * 1.0));
}

// More blocks if they are short, so that a disturbed block has less weight.
int blocks_for(const RaceOptions& options, double block_us) {
  if (options.blocks > 0) return options.blocks;
  return static_cast<int>(
      std::clamp(options.seconds * 1e6 / block_us, kMinBlocks, kMaxBlocks));
}

class Runner {
 public:
  Runner(const comm::Group& group, const Contestant& contestant)
      : group_(group), contestant_(contestant) {}

  // Microseconds per iteration on this rank.
  double block(int iterations) {
    comm::barrier(group_).wait();
    const auto start = Clock::now();
    for (int i = 0; i < iterations; ++i) contestant_.run(done_++);
    const std::chrono::duration<double, std::micro> time = Clock::now() - start;
    return time.count() / iterations;
  }

  void warm_up() {
    for (std::size_t i = 0; i < contestant_.warmup; ++i)
      contestant_.run(done_++);
  }

  // The time of one iteration on the slowest rank, measured over enough
  // iterations to be reliable; the same on all ranks.
  double trial() {
    for (int iterations = 1;; iterations *= 2) {
      const double one = largest(group_, {block(iterations)})[0];
      if (one * iterations >= kTrialUs || iterations >= kMaxIterations)
        return std::max(one, 1e-3);
    }
  }

 private:
  const comm::Group& group_;
  const Contestant& contestant_;
  std::size_t done_ = 0;
};

}  // namespace

std::vector<double> largest(const comm::Group& group,
                            std::vector<double> values) {
  comm::all_reduce(group, values, {.op = comm::ReduceOp::kMax}).wait();
  return values;
}

std::int64_t total(const comm::Group& group, std::int64_t value) {
  std::vector<std::int64_t> values{value};
  comm::all_reduce(group, values).wait();
  return values[0];
}

std::vector<Timing> race(const comm::Group& group,
                         std::span<const Contestant> contestants,
                         const RaceOptions& options) {
  std::vector<Runner> runners;
  std::vector<Timing> timings(contestants.size());
  double longest_us = 0;
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    Runner& runner = runners.emplace_back(group, contestants[i]);
    runner.warm_up();
    const double us = runner.trial();
    timings[i].iterations = iterations_for(options, us);
    longest_us = std::max(longest_us, us * timings[i].iterations);
  }
  const auto blocks = static_cast<std::size_t>(blocks_for(options, longest_us));
  std::vector<double> times(contestants.size() * blocks);
  for (std::size_t block = 0; block < blocks; ++block)
    for (std::size_t i = 0; i < contestants.size(); ++i)
      times[i * blocks + block] = runners[i].block(timings[i].iterations);
  times = largest(group, times);
  for (std::size_t i = 0; i < contestants.size(); ++i)
    timings[i].us = summarize(std::span(times).subspan(i * blocks, blocks));
  return timings;
}

}  // namespace sheaf::cli

#include "sheaf/cli/bench_race.hpp"

#include <algorithm>
#include <chrono>

#include "sheaf/comm/collectives.hpp"

namespace sheaf::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kTrialUs = 2000;

class Runner {
 public:
  Runner(const comm::Group& group, const Contestant& contestant)
      : group_(group), contestant_(contestant) {}

  // Microseconds per iteration on this rank.
  double block(int iterations) {
    comm::barrier(group_);
    const auto start = Clock::now();
    for (int i = 0; i < iterations; ++i) contestant_.run(done_++);
    const std::chrono::duration<double, std::micro> time = Clock::now() - start;
    return time.count() / iterations;
  }

  void warm_up() {
    for (std::size_t i = 0; i < contestant_.warmup; ++i)
      contestant_.run(done_++);
  }

  // Iterations that take about `us` microseconds; the same on all ranks.
  int fitting(double us) {
    for (int iterations = 1;; iterations *= 2) {
      const double one = largest(group_, {block(iterations)})[0];
      const bool is_enough = one * iterations >= std::min(us, kTrialUs);
      if (is_enough || iterations >= kMaxIterations)
        return static_cast<int>(
            std::clamp(us / std::max(one, 1e-3), 1.0, kMaxIterations * 1.0));
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
  comm::all_reduce(group, values, {.op = comm::ReduceOp::kMax});
  return values;
}

std::int64_t total(const comm::Group& group, std::int64_t value) {
  std::vector<std::int64_t> values{value};
  comm::all_reduce(group, values);
  return values[0];
}

std::vector<Timing> race(const comm::Group& group,
                         std::span<const Contestant> contestants,
                         const RaceOptions& options) {
  const auto blocks = static_cast<std::size_t>(options.blocks);
  std::vector<Runner> runners;
  std::vector<Timing> timings(contestants.size());
  std::vector<double> times(contestants.size() * blocks);
  for (std::size_t i = 0; i < contestants.size(); ++i) {
    Runner& runner = runners.emplace_back(group, contestants[i]);
    runner.warm_up();
    timings[i].iterations =
        options.iterations > 0
            ? options.iterations
            : runner.fitting(options.seconds * 1e6 / options.blocks);
  }
  for (std::size_t block = 0; block < blocks; ++block)
    for (std::size_t i = 0; i < contestants.size(); ++i)
      times[i * blocks + block] = runners[i].block(timings[i].iterations);
  times = largest(group, times);
  for (std::size_t i = 0; i < contestants.size(); ++i)
    timings[i].us = summarize(std::span(times).subspan(i * blocks, blocks));
  return timings;
}

}  // namespace sheaf::cli

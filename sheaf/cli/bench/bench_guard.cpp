// Measures the cost of comparing fingerprints: an all-reduce of 8 bytes with
// and without the comparison, interleaved.

#include <iostream>

#include "sheaf/cli/bench/bench_race.hpp"
#include "sheaf/cli/bench/bench_run.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"

namespace sheaf::cli {
namespace {

constexpr int kBlocks = 101;
constexpr int kIterations = 1000;
constexpr std::size_t kElements = 2;  // of f32: 8 bytes

Contestant contestant(const comm::Group& group,
                      const comm::SharedArray<float>& data, bool has_guard) {
  return {.run =
              [&group, data, has_guard](std::size_t) {
                // All ranks switch at the same call: a block begins with a
                // barrier, so no rank is in the first all-reduce before all
                // have passed it.
                group.core().runtime().set_guard(has_guard);
                comm::all_reduce(group, data).wait();
              },
          .warmup = 1000};
}

}  // namespace

Ending run_guard(const comm::Group& group, const BenchJob& job) {
  const auto data = group.allocate<float>(kElements);
  for (float& value : data) value = 0;
  const std::vector<Contestant> contestants{contestant(group, data, true),
                                            contestant(group, data, false)};
  const bool is_given = job.args.iterations > 0;
  const auto timings =
      race(group, contestants,
           {.blocks = kBlocks,
            .iterations = is_given ? job.args.iterations : kIterations});
  group.core().runtime().set_guard(true);
  if (group.rank() != 0) return {};
  const Summary& on = timings[0].us;
  const Summary& off = timings[1].us;
  Table table(
      {{.name = "ranks"},
       {.name = "with", .unit = "us", .key = "guard_us", .decimals = 3},
       {.name = "without", .unit = "us", .key = "no_guard_us", .decimals = 3},
       {.name = "ratio", .unit = "with/without", .key = "ratio", .decimals = 3},
       {.name = "ratio of minima", .key = "min_ratio", .decimals = 3}});
  table.add_row({group.size(), on.median, off.median, on.median / off.median,
                 on.min / off.min});
  table.print(std::cout, job.plan.format);
  return {};
}

}  // namespace sheaf::cli

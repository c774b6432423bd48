// Measures the cost of waiting. The last rank sleeps for a second before a
// barrier; the CPU time that the others use until it arrives is printed.

#include <sys/resource.h>

#include <chrono>
#include <iostream>
#include <thread>

#include "sheaf/cli/bench/bench_run.hpp"
#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::cli {
namespace {

constexpr auto kLate = std::chrono::seconds(1);

double milliseconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) * 1e3 +
         static_cast<double>(time.tv_usec) / 1e3;
}

// User and system CPU time of all threads of this process.
double processor_ms() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return milliseconds(usage.ru_utime) + milliseconds(usage.ru_stime);
}

struct Wait {
  double wall_ms = 0;
  double processor_ms = 0;
};

std::vector<Wait> measure(const comm::Group& group,
                          const std::function<void()>& barrier) {
  for (int i = 0; i < 3; ++i) barrier();  // warm up connections and pages
  const auto start = std::chrono::steady_clock::now();
  const double before = processor_ms();
  if (group.rank() == group.size() - 1) std::this_thread::sleep_for(kLate);
  barrier();
  const std::chrono::duration<double, std::milli> wall =
      std::chrono::steady_clock::now() - start;
  const std::vector<double> mine{wall.count(), processor_ms() - before};
  std::vector<double> all(2 * static_cast<std::size_t>(group.size()));
  comm::all_gather(group, mine, all).wait();
  std::vector<Wait> waits;
  for (std::size_t i = 0; i < all.size(); i += 2)
    waits.push_back({all[i], all[i + 1]});
  return waits;
}

// Adds the ranks that waited; the last rank, which slept, is omitted.
void add_rows(Table& table, const std::string& library,
              const std::vector<Wait>& waits) {
  for (std::size_t rank = 0; rank + 1 < waits.size(); ++rank)
    table.add_row({library, rank, waits[rank].wall_ms, waits[rank].processor_ms,
                   waits[rank].processor_ms / waits[rank].wall_ms * 100});
}

}  // namespace

Ending run_idle(const comm::Group& group, const BenchJob& job) {
  Table table({{.name = "library", .align = Align::kLeft},
               {.name = "rank"},
               {.name = "waited", .unit = "ms", .key = "wait_ms"},
               {.name = "processor", .unit = "ms", .key = "processor_ms"},
               {.name = "load", .unit = "%", .key = "load_percent"}});
  add_rows(table, "sheaf",
           measure(group, [&] { comm::barrier(group).wait(); }));
  for (const std::string& name : job.plan.versus) {
    const auto library = join_rival(group, name, job.args.interface);
    const auto run = library->prepare({.operation = comm::Operation::kBarrier});
    add_rows(table, name, measure(group, [&] { run(nullptr, nullptr); }));
    comm::barrier(group).wait();
  }
  if (group.rank() == 0) table.print(std::cout, job.plan.format);
  return {};
}

}  // namespace sheaf::cli

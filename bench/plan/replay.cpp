// Replays a step of many different workers, without merging equal ones, from
// one trace:
//   plan_replay trace.json --workers 1024
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <random>

#include "sheaf/plan/graph/step_replay.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using namespace sheaf;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::size_t events_of(const plan::StepGraph& step) {
  std::size_t events = step.kernels.size();
  for (const auto& thread : step.threads) events += thread.size();
  return events;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app;
  std::string file;
  std::size_t workers = 1024, kinds = 8;
  app.add_option("trace", file)->required();
  app.add_option("--workers", workers);
  app.add_option("--kinds", kinds, "Number of graphs with different kernels");
  CLI11_PARSE(app, argc, argv);

  const plan::Trace trace = plan::read_steps(file);
  std::vector<plan::StepGraph> graphs;
  std::mt19937 random(1);
  for (std::size_t i = 0; i < kinds; ++i) {
    graphs.push_back(plan::make_graph(trace.steps.back(), trace.names));
    std::uniform_real_distribution<double> factor(0.8, 1.2);
    for (plan::KernelTask& task : graphs.back().kernels)
      task.ns = static_cast<std::int64_t>(static_cast<double>(task.ns) *
                                          factor(random));
  }
  std::vector<plan::Replay> ranks(workers);
  std::vector<const plan::StepGraph*> steps;
  std::size_t events = 0;
  for (std::size_t i = 0; i < workers; ++i) {
    steps.push_back(&graphs[i % kinds]);
    events += events_of(*steps.back());
  }
  const auto begin = Clock::now();
  const auto together = plan::Replay::run_together(
      ranks, steps, [](std::size_t) { return std::int64_t{1'000'000}; });
  const double seconds = seconds_since(begin);
  fmt::print(
      "{} workers, {} events in {:.2f} s: {:.1f} M events/s; step {:.1f} ms\n",
      workers, events, seconds, 1e-6 * static_cast<double>(events) / seconds,
      1e-6 * static_cast<double>(together.step_ns[0]));
}

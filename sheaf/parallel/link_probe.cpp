#include "sheaf/parallel/link_probe.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>

#include "sheaf/comm/collectives.hpp"

namespace sheaf::parallel {
namespace {

constexpr int kTimes = 5;

template <class Action>
double best_seconds(int times, Action action) {
  double best = 1e9;
  for (int i = 0; i < times; ++i) {
    const auto start = std::chrono::steady_clock::now();
    action();
    best = std::min(best, std::chrono::duration<double>(
                              std::chrono::steady_clock::now() - start)
                              .count());
  }
  return best;
}

// A product of as many rows as a batch may have.
double flops() {
  const at::Tensor a = at::ones({1024, 64});
  const at::Tensor b = at::ones({64, 1024});
  const at::Tensor c = at::empty({1024, 1024});
  const double seconds = best_seconds(
      kTimes, [&] { at::mm_out(const_cast<at::Tensor&>(c), a, b); });
  return 2.0 * 1024 * 1024 * 64 / seconds;
}

}  // namespace

LinkModel measure_link(const comm::Group& group, Where where) {
  const at::NoGradGuard no_grad;
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto share = [&](std::size_t bytes, int times) {
    const at::Tensor mine =
        at::zeros({static_cast<std::int64_t>(bytes)}, at::kByte);
    return best_seconds(times, [&] {
      share_bytes(group, where, mine, std::vector<std::size_t>(ranks, bytes));
    });
  };
  share(8, kTimes);
  // The slowest rank's.
  std::vector<double> slowest{share(8, kTimes), share(256 << 10, 3),
                              1 / flops()};
  comm::all_reduce(group, slowest, {.op = comm::ReduceOp::kMax});
  LinkModel link;
  link.ranks = group.size();
  link.latency_s = slowest[0];
  link.bytes_per_s = static_cast<double>((ranks - 1) * (256 << 10)) /
                     std::max(1e-9, slowest[1] - slowest[0]);
  link.flops = 1 / slowest[2];
  return link;
}

}  // namespace sheaf::parallel

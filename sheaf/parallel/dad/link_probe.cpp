#include <torch/torch.h>

#include <algorithm>
#include <chrono>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/dad/dad_plan.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::parallel {
namespace {

constexpr int kTimes = 5;
// Sufficient to measure a link's rate; on a fast link, larger than the caches.
constexpr std::size_t kBytes = 256 << 10;
constexpr std::size_t kManyBytes = 16 << 20;
constexpr double kFast = 1e-3;  // seconds for kBytes

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

// A product with as many rows as a typical batch.
double flops() {
  const at::Tensor a = at::ones({1024, 64});
  const at::Tensor b = at::ones({64, 1024});
  at::Tensor c = at::empty({1024, 1024});
  const double seconds = best_seconds(kTimes, [&] { at::mm_out(c, a, b); });
  return 2.0 * 1024 * 1024 * 64 / seconds;
}

// A product with so few rows that reading the weight dominates; the weight is
// larger than the caches.
double weight_rate() {
  const at::Tensor rows = at::ones({4, 2048});
  const at::Tensor weight = at::ones({2048, 4096});
  at::Tensor product = at::empty({4, 4096});
  const double seconds =
      best_seconds(kTimes, [&] { at::mm_out(product, rows, weight); });
  return static_cast<double>(weight.nbytes()) / seconds;
}

// Measures encoding and decoding.
double skip_rate() {
  const at::Tensor half = at::relu(at::randn({256, 256}));
  const WireFormat format{.skips_zeros = true};
  return static_cast<double>(half.nbytes()) / best_seconds(kTimes, [&] {
           decode(encode(half, format), half.sizes(), at::kFloat, format);
         });
}

}  // namespace

LinkModel measure_link(const comm::Group& group, Where where) {
  const at::NoGradGuard no_grad;
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto share = [&](std::size_t bytes, int times) {
    const at::Tensor mine =
        at::zeros({static_cast<std::int64_t>(bytes)}, at::kByte);
    return best_seconds(times, [&] {
      // As in a pass, each part is decoded and all are concatenated.
      auto parts = share_bytes(group, where, mine,
                               std::vector<std::size_t>(ranks, bytes));
      for (at::Tensor& part : parts) part = part.clone();
      at::cat(parts);
    });
  };
  share(8, kTimes);
  const double latency = share(8, kTimes);
  // The slowest rank determines the result, on all ranks.
  const auto slowest = [&](double seconds) {
    std::vector<double> most{seconds};
    comm::all_reduce(group, most, {.op = comm::ReduceOp::kMax}).wait();
    return most[0];
  };
  const auto reduce = [&](std::size_t bytes) {
    const at::Tensor block = tensor::empty_shared(
        group, {static_cast<std::int64_t>(bytes / sizeof(float))});
    block.zero_();
    return best_seconds(3, [&] { tensor::all_reduce(group, block).wait(); });
  };
  LinkModel link;
  link.ranks = group.size();
  link.latency_s = slowest(latency);
  const auto rate = [&](double bytes, double seconds) {
    return bytes / std::max(1e-9, seconds - link.latency_s);
  };
  std::size_t bytes = kBytes;
  double reduce_s = slowest(reduce(bytes));
  if (reduce_s < kFast) {
    bytes = kManyBytes;
    reduce_s = slowest(reduce(bytes));
  }
  const auto others = static_cast<double>(ranks - 1);
  link.gather_bytes_per_s =
      rate(others * static_cast<double>(kBytes), slowest(share(kBytes, 3)));
  link.reduce_bytes_per_s =
      rate(2 * others / static_cast<double>(ranks) * static_cast<double>(bytes),
           reduce_s);
  link.skip_bytes_per_s = 1 / slowest(1 / skip_rate());
  link.flops = 1 / slowest(1 / flops());
  link.weight_bytes_per_s = 1 / slowest(1 / weight_rate());
  return link;
}

}  // namespace sheaf::parallel

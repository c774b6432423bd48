#include "sheaf/plan/predict/gradient_exchange.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/predict/cluster.hpp"
#include "tests/plan/trace/model_trace.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

class GradientExchange : public testing::Test {
 protected:
  GradientExchange()
      : recorded_(profiles()),
        step_(mix_step(recorded_, uniform(Precision::kF32), {})) {}
  static std::vector<StepProfile> profiles() {
    std::vector<StepProfile> list;
    list.push_back(read_profile(
        ModelTrace(small_model(), uniform(Precision::kF32), true).write()));
    return list;
  }
  double step_us(const StepGraph& step, std::int64_t collective_ns) const {
    std::vector<Replay> ranks(1);
    const auto together = Replay::run_together(
        ranks, {&step}, [&](std::size_t) { return collective_ns; });
    return 1e-3 * static_cast<double>(together.step_ns[0]);
  }
  Recorded recorded_;
  StepGraph step_;
};

// fc's gradient, 2 MB, is computed first; conv1's, 4 kB, last, with 16 more
// elements for the status.
TEST_F(GradientExchange, StartsBucketsWhenTheyAreFull) {
  const StepGraph with = with_exchange(step_, recorded_.base(), {});
  ASSERT_EQ(with.collectives.size(), 2u);
  EXPECT_EQ(with.collectives[0].elements, 500000);
  EXPECT_EQ(with.collectives[1].elements, 1016);
  EXPECT_EQ(collective_bytes(with), (std::vector<double>{2e6, 4064}));
  // Backward after fc takes two milliseconds: the first bucket overlaps with
  // it.
  const double none = step_us(with, 0);
  const double some = step_us(with, 300'000);
  // The second bucket is sent at the end.
  const double late = 300;
  EXPECT_LT(some - none, late + 100);
  EXPECT_GT(some - none, late - 50);
  ExchangeOptions alone;
  alone.is_inline = true;
  const double each =
      step_us(with_exchange(step_, recorded_.base(), alone), 300'000);
  EXPECT_GT(each, some);
}

// fc's gradient has more than 256 KiB. In host memory it has a bucket of its
// own, and conv1's follows. On GPUs both share a bucket, where conv1's 1000
// elements are padded to 1008, as they are if 16 bits are sent. NCCL exchanges
// no status, so a message counts the users of the two parameters.
TEST_F(GradientExchange, FillsBucketsAsSheafDoes) {
  ExchangeOptions options;
  options.caps.first_bytes = options.caps.bytes;
  const auto bytes = [&] {
    return collective_bytes(with_exchange(step_, recorded_.base(), options));
  };
  using Bytes = std::vector<double>;
  EXPECT_EQ(bytes(), (Bytes{2e6, 4064}));
  options.hosts = 3;  // the status uses padding only
  EXPECT_EQ(bytes(), (Bytes{2e6, 4e3, 2 * 4}));
  options.hosts = 1;
  options.is_on_devices = true;
  EXPECT_EQ(bytes(), (Bytes{4 * 501008.0, 2 * 4}));
  options.routes = parse_exchange("half");
  EXPECT_EQ(bytes(), Bytes{2 * 501008.0});
  options.is_on_devices = false;
  EXPECT_EQ(bytes(), Bytes{2 * 501008.0});
}

// A worker on the CPU decides for all: its large gradients stay in place.
TEST_F(GradientExchange, TakesHostsAndDevicesFromTheCluster) {
  std::vector<StepProfile> list = profiles();
  list[0].model.device = "cpu";
  const Recorded on_cpu(std::move(list));
  Cluster cluster;
  cluster.kinds = {{&recorded_, {}, 2}};
  cluster.placement = topo::placement_of(topo::Dims{{1, 2}});
  const std::vector<PrecisionPlan> plans(2, uniform(Precision::kF32));
  EXPECT_EQ(exchange_of(cluster, 0, plans).hosts, 2);
  EXPECT_TRUE(exchange_of(cluster, 0, plans).is_on_devices);
  cluster.kinds.push_back({&on_cpu, {}, 1});
  for (const std::size_t kind : {0u, 1u})
    EXPECT_FALSE(exchange_of(cluster, kind, plans).is_on_devices);
}

// Bytes of one type of collective, in order.
std::vector<double> bytes_of(const StepGraph& step, const char* name) {
  std::vector<double> list;
  const auto all = collective_bytes(step);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (step.collectives[i].name == name) list.push_back(all[i]);
  return list;
}

// fc is 5 x 100,000 with one row: 5 inputs and 100,000 deltas per worker, each
// with a header of 64 numbers of 8 bytes. Besides factors, conv1's gradient and
// small messages are sent.
TEST_F(GradientExchange, SendsFactorsInPlaceOfGradients) {
  ExchangeOptions options;
  options.routes = parse_exchange("dad");
  options.workers = 4;
  const StepGraph with = with_exchange(step_, recorded_.base(), options);
  const double header = 4 * 8 * 64;
  EXPECT_EQ(bytes_of(with, "all_gather"),
            (std::vector<double>{header, 4 * 4 * 5, header, 4 * 4 * 1e5}));
  std::vector<double> rest(1 + kMixedPassMessages, 4);
  rest[0] = 4064;
  EXPECT_EQ(bytes_of(with, "all_reduce"), rest);
  options.routes = parse_exchange("gradients,fc=dad");
  EXPECT_EQ(collective_bytes(with_exchange(step_, recorded_.base(), options)),
            collective_bytes(with));
  options.routes = parse_exchange("half");
  const StepGraph half = with_exchange(step_, recorded_.base(), options);
  EXPECT_EQ(collective_bytes(half), (std::vector<double>{1e6, 2032}));
  // Between hosts, partial sums of 4 bytes and results of 2 bytes are sent, in
  // place of 4 and 4.
  options.hosts = 2;
  EXPECT_EQ(collective_bytes(with_exchange(step_, recorded_.base(), options)),
            (std::vector<double>{1.5e6, 3048}));
  options.hosts = 1;
  // Two more workers with twice as many rows each.
  options.routes = parse_exchange("half,fc=dad");
  options.shares = 5;
  const StepGraph more = with_exchange(step_, recorded_.base(), options);
  EXPECT_DOUBLE_EQ(bytes_of(more, "all_gather")[1], 4 * 5 * 5);
  EXPECT_EQ(bytes_of(more, "all_reduce")[0], 2032);
}

// Backward of fc takes 400 us, half of it for the gradient of the weight: that
// half is removed and computed for four workers at the end.
TEST_F(GradientExchange, MultipliesTheRowsOfAll) {
  ExchangeOptions options;
  options.workers = 4;
  const double plain =
      step_us(with_exchange(step_, recorded_.base(), options), 0);
  options.routes = parse_exchange("dad");
  const double factors =
      step_us(with_exchange(step_, recorded_.base(), options), 0);
  EXPECT_GT(factors - plain, 3 * 200 - 10);
  // Plus launches of messages, 10 us each.
  EXPECT_LT(factors - plain, 3 * 200 + 8 * 10);
}

// 2 x (m x m) for m = 1 + 16 rows from in + out columns, and the further
// products, at the rate of the gradient's own product; then the factors of two
// ranks.
TEST_F(GradientExchange, LowRankIsEstimatedFromProducts) {
  std::vector<FactorLayer> layers = factor_layers(recorded_.base(), step_);
  ASSERT_EQ(layers.size(), 1u);
  EXPECT_EQ(layers[0].name, "fc");
  EXPECT_NEAR(layers[0].gradient_ns, 200e3, 5e3);
  layers[0].rows = 64;
  layers[0].in = 300;
  layers[0].out = 100;
  layers[0].has_bias = true;
  layers[0].gradient_ns = 1e6;
  const FactorCosts costs(layers, parse_exchange("rank-dad:8"), {2, 2});
  EXPECT_EQ(costs.forward_bytes(0), 0);
  EXPECT_EQ(costs.backward_bytes(0), 4 * 2 * (8 * (300 + 100) + 100));
  const double work = 2 * 80 * 80 * 400.0 + 3 * 80 * 80 * 80.0;
  EXPECT_NEAR(costs.compression_ns(0), 1e6 * work / (2.0 * 64 * 300 * 100), 1);
  EXPECT_NEAR(costs.gradient_ns(0), 1e6 * 2 * 8 / 64, 1);
  EXPECT_TRUE(costs.parcels().forward.empty());
  // The rank is limited by the number of rows.
  layers[0].rows = 3;
  const FactorCosts few(layers, parse_exchange("low_rank:8"), {2, 2});
  EXPECT_EQ(few.backward_bytes(0), 4 * 2 * (3 * (300 + 100) + 100));
}

// Two layers of 100 x 100, the second above the first.
TEST_F(GradientExchange, DeltasThatFollowAreNotSent) {
  std::vector<FactorLayer> layers(2);
  for (FactorLayer& one : layers) {
    one.rows = 10;
    one.in = one.out = 100;
    one.gradient_ns = 1000;
    one.slots = {0};
  }
  layers[0].name = "below";
  layers[0].above = 1;
  layers[1].name = "top";
  const auto costs = [&](const char* routes) {
    return FactorCosts(layers, parse_exchange(routes), {2, 2});
  };
  EXPECT_EQ(costs("edad").backward_bytes(0), 0);
  EXPECT_EQ(costs("edad").backward_bytes(1), 4 * 2 * 10 * 100);
  EXPECT_EQ(costs("edad").gradient_ns(0), 2 * 1000 + 2 * 1000);
  // Deltas cannot be derived from a layer that sends its gradient.
  EXPECT_EQ(costs("edad,top=gradients").backward_bytes(0), 4 * 2 * 10 * 100);
  EXPECT_EQ(costs("edad,top=gradients").gradient_ns(0), 2 * 1000);
  EXPECT_EQ(costs("edad").parcels().forward,
            (Parcels{{0, 1}}));  // 8 kB share a message
  EXPECT_EQ(costs("edad").parcels().backward, (Parcels{{1, 0}}));
}

// 700 rows of 100 columns have 280 kB, more than a parcel; a worker with a
// third of them sends the same parcels.
TEST_F(GradientExchange, WorkersWithFewerRowsSendTheSameParcels) {
  std::vector<FactorLayer> layers(2);
  for (FactorLayer& one : layers) {
    one.rows = 1050;
    one.in = one.out = 100;
  }
  const auto parcels = [&](double shares) {
    return FactorCosts(layers, parse_exchange("dad"), {2, shares}).parcels();
  };
  EXPECT_EQ(parcels(1400 / 1050.0).forward, (Parcels{{0}, {1}}));
  for (FactorLayer& one : layers) one.rows = 350;
  EXPECT_EQ(parcels(1400 / 350.0).forward, (Parcels{{0}, {1}}));
  EXPECT_EQ(parcels(2).forward, (Parcels{{0, 1}}));
}

TEST_F(GradientExchange, WeightsThatAreCastSendGradients) {
  const ExchangePlan dad = parse_exchange("dad");
  PrecisionPlan plan = uniform(Precision::kF32);
  const auto& graph = recorded_.graph();
  EXPECT_EQ(routes_under(dad, graph, {plan}), dad);
  PrecisionPlan low = plan;
  low.layers["fc"] = Precision::kBf16;
  EXPECT_EQ(routes_under(dad, graph, {plan, low}).of("fc"), Route::kGradients);
  EXPECT_EQ(routes_under(parse_exchange("half,fc=dad"), graph, {low}).of("fc"),
            Route::kHalf);
}

TEST_F(GradientExchange, UnknownLayersAreErrors) {
  expect_throws<UsageError>(
      [&] {
        check_routes(parse_exchange("gradients,fd=dad"), recorded_.base());
      },
      {"'fd'", "did you mean 'fc'"});
  expect_throws<UsageError>(
      [&] { check_routes(parse_exchange("half,conv1=dad"), recorded_.base()); },
      {"conv1", "not a product"});
}

TEST_F(GradientExchange, WaitsForTheLastRank) {
  Cluster cluster;
  WorkerKind fast{&recorded_, casts_of(recorded_), 3, 1, {}};
  WorkerKind slow = fast;
  slow.change.compute = 0.5;
  cluster.kinds = {fast, slow};
  cluster.placement = topo::placement_of(topo::Dims{{6}});
  const auto plan = uniform(Precision::kF32);
  const ClusterStep step = predict_step(cluster, {plan, plan});
  EXPECT_EQ(cluster.workers(), 6);
  EXPECT_GT(step.waits_ns[0], 100'000);
  EXPECT_EQ(step.waits_ns[1], 0);
  EXPECT_NEAR(static_cast<double>(step.kind_ns[0]),
              static_cast<double>(step.kind_ns[1]),
              0.05 * static_cast<double>(step.kind_ns[1]));
}

}  // namespace
}  // namespace sheaf::plan

#include "sheaf/plan/predict/planned_messages.hpp"

#include <gtest/gtest.h>

namespace sheaf::plan {
namespace {

// Parameters of 64 elements each, in the order of the module.
StepProfile with_parameters(const std::vector<std::string>& layers) {
  StepProfile profile;
  for (const std::string& layer : layers)
    profile.model.parameters.push_back({layer + ".weight", 64, layer});
  return profile;
}

// 256 bytes are one gradient, so that the first bucket has one and later ones
// two: {d}, {c, b}, {a}. The last has 16 more elements, for the status.
constexpr BucketCaps kSmallCaps{.first_bytes = 256, .bytes = 512};

TEST(PlannedBuckets, AreSentInOrderWhenComplete) {
  PlannedBuckets buckets(with_parameters({"a", "b", "c", "d"}), {},
                         {.caps = kSmallCaps});
  EXPECT_FALSE(buckets.is_empty());
  EXPECT_EQ(buckets.parameters(), 4);
  EXPECT_FALSE(buckets.counts_users());
  EXPECT_EQ(buckets.take_complete(), std::nullopt);
  buckets.complete_gradient();  // d
  EXPECT_EQ(buckets.take_complete(), 64);
  EXPECT_EQ(buckets.take_complete(), std::nullopt);
  buckets.complete_gradient();  // c
  EXPECT_EQ(buckets.take_complete(), std::nullopt);
  buckets.complete_gradient();  // b
  EXPECT_EQ(buckets.take_complete(), 128);
  // At the end the rest is sent, complete or not.
  EXPECT_EQ(buckets.take(), 64 + 16);
  EXPECT_EQ(buckets.take(), std::nullopt);
  // Gradients beyond those of the trace are ignored.
  buckets.complete_gradient();
  buckets.complete_gradient();
  EXPECT_EQ(buckets.take_complete(), std::nullopt);
}

TEST(PlannedBuckets, LeaveOutLayersThatSendFactors) {
  PlannedBuckets buckets(with_parameters({"a", "b", "c", "d"}), {"b", "d"},
                         {.caps = kSmallCaps});
  EXPECT_EQ(buckets.parameters(), 2);
  buckets.complete_gradient();  // d, in no bucket
  EXPECT_EQ(buckets.take_complete(), std::nullopt);
  buckets.complete_gradient();  // c
  EXPECT_EQ(buckets.take_complete(), 64);
  PlannedBuckets none(with_parameters({"a"}), {"a"}, {});
  EXPECT_TRUE(none.is_empty());
  EXPECT_EQ(none.parameters(), 0);
  EXPECT_FALSE(none.counts_users());
  EXPECT_EQ(none.take(), std::nullopt);
}

// NCCL sends no status, so a message counts users. In 16 bits, gradients of
// GPUs are exchanged in host memory.
TEST(PlannedBuckets, CountUsersWhereThereIsNoStatus) {
  const StepProfile profile = with_parameters({"a"});
  PlannedBuckets on_devices(profile, {}, {.is_on_devices = true});
  EXPECT_TRUE(on_devices.counts_users());
  EXPECT_EQ(on_devices.take(), 64);
  PlannedBuckets half(profile, {}, {.is_half = true, .is_on_devices = true});
  EXPECT_FALSE(half.counts_users());
  PlannedBuckets on_hosts(profile, {}, {.hosts = 3});
  EXPECT_TRUE(on_hosts.counts_users());
}

// Two layers of 100 x 100 with ten rows: 4000 bytes of inputs and of deltas for
// each worker. Slots 0 and 2 are the layers, slot 1 is a function.
std::vector<FactorLayer> two_factor_layers() {
  std::vector<FactorLayer> layers(2);
  for (FactorLayer& one : layers) {
    one.rows = 10;
    one.in = one.out = 100;
    one.gradient_ns = 1000;
  }
  layers[0].name = "below";
  layers[0].slots = {0};
  layers[0].gradient_part = {1};
  layers[1].name = "top";
  layers[1].slots = {2};
  layers[1].gradient_part = {0.5};
  return layers;
}

TEST(PlannedParcels, AreReadyWithTheLastOfTheirLayers) {
  PlannedParcels parcels(two_factor_layers(), parse_exchange("dad"), {2, 2});
  EXPECT_EQ(parcels.layers(), (std::set<std::string>{"below", "top"}));
  EXPECT_EQ(parcels.omitted_part(0), 1);
  EXPECT_EQ(parcels.omitted_part(1), 0);
  EXPECT_EQ(parcels.omitted_part(2), 0.5);
  EXPECT_EQ(parcels.gradient_ns(), 2 * (1000 + 1000));
  // Inputs of both layers share a parcel: it leaves after the forward pass of
  // slot 2. Deltas leave after the backward pass of slot 0.
  for (const std::size_t side : {0, 2}) {
    parcels.complete_side(side);
    EXPECT_FALSE(parcels.take_ready());
  }
  parcels.complete_side(4);
  const auto inputs = parcels.take_ready();
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->layers, 2u);
  EXPECT_EQ(inputs->bytes, 2 * 2 * 4000);
  EXPECT_FALSE(parcels.take_ready());
  for (const std::size_t side : {5, 3}) {
    parcels.complete_side(side);
    EXPECT_FALSE(parcels.take_ready());
  }
  parcels.complete_side(1);
  const auto deltas = parcels.take_ready();
  ASSERT_TRUE(deltas);
  EXPECT_EQ(deltas->bytes, 2 * 2 * 4000);
  EXPECT_EQ(deltas->compression_ns, 0);
  EXPECT_FALSE(parcels.take());
}

TEST(PlannedParcels, OfTheForwardPassAreFirstAtTheEnd) {
  PlannedParcels parcels(two_factor_layers(),
                         parse_exchange("gradients,below=dad"), {2, 2});
  EXPECT_EQ(parcels.layers(), std::set<std::string>{"below"});
  EXPECT_EQ(parcels.omitted_part(2), 0);
  parcels.complete_side(1);
  const auto inputs = parcels.take();
  ASSERT_TRUE(inputs);
  EXPECT_EQ(inputs->layers, 1u);
  EXPECT_TRUE(parcels.take());
  EXPECT_FALSE(parcels.take());
}

// Low-rank factors are computed before they are sent, in backward.
TEST(PlannedParcels, OfLowRankAreCompressed) {
  PlannedParcels parcels(two_factor_layers(),
                         parse_exchange("gradients,top=rank-dad:2"), {2, 2});
  const auto only = parcels.take();
  ASSERT_TRUE(only);
  EXPECT_EQ(only->bytes, 4 * 2 * 2 * (100 + 100));
  EXPECT_GT(only->compression_ns, 0);
  EXPECT_FALSE(parcels.take());
}

}  // namespace
}  // namespace sheaf::plan

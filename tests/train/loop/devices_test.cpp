// Runs whose ranks use different devices.
#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/topo/host.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/setup/network_setup.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {
namespace {

RunResult run_on(const TemporaryFolder& folder, const std::string& name,
                 const comm::Group& group, std::vector<std::string> sets) {
  return run_in(group, folder.path() / name, small_run(sets));
}

TEST(Devices, AListForEachRankIsAsOneForAll) {
  const TemporaryFolder folder;
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto one = run_on(folder, "one", group, {"device=cpu"});
    const auto list =
        run_on(folder, "list", group, {"device=[cpu, cpu]", "threads=[1, 1]"});
    EXPECT_TRUE(has_same_bits(one.weights, list.weights));
  });
}

// A step uses the global batch regardless of which rank computes which rows.
TEST(Devices, RanksMayHaveUnequalShares) {
  const TemporaryFolder folder;
  comm::run_threads(3, [&](const comm::Group& group) {
    const auto equal = run_on(folder, "equal", group, {});
    const auto unlike = run_on(folder, "unlike", group, {"shares=[5, 0, 2]"});
    EXPECT_FALSE(has_same_bits(equal.weights, unlike.weights));
    // Weights below 1, twelve steps, sums of 8 in a different order.
    EXPECT_LT(largest_difference(equal.weights, unlike.weights), 1e-5);
    EXPECT_NEAR(equal.test->loss, unlike.test->loss, 1e-5);
  });
}

TEST(Devices, AWrongNumberIsReportedOnce) {
  const TemporaryFolder folder;
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto start = [&] {
      run_on(folder, "none", group, {"device=[cpu, cpu, cpu]"});
    };
    if (group.rank() == 0)
      expect_throws<UsageError>(start, {"device lists 3 ranks", "-n 3"});
    else
      EXPECT_THROW(start(), FailedOnRoot);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "none"));
  });
}

TEST(Devices, ARankWithoutGpuIsAnError) {
  if (torch::cuda::is_available()) GTEST_SKIP() << "there is a GPU";
  const TemporaryFolder folder;
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto start = [&] {
      run_on(folder, "none", group, {"device=[cpu, cuda]"});
    };
    if (group.rank() == 1)
      expect_throws<UsageError>(start, {"device is cuda for rank 1"});
    else
      EXPECT_THROW(start(), FailedOnRoot);
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "none"));
  });
}

TEST(Devices, GpusAreCountedByThoseWhoWantOne) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  comm::run_threads(3, [&](const comm::Group& group) {
    const auto device =
        device_of_rank(small_run({"device=[cpu, cuda, cuda]"}), group);
    const int gpus = static_cast<int>(torch::cuda::device_count());
    EXPECT_EQ(device.is_cpu(), group.rank() == 0);
    if (group.rank() == 1) EXPECT_EQ(device.index(), 0);
    if (group.rank() == 2) EXPECT_EQ(device.index(), 1 % gpus);
  });
}

// A first layer of more than 256 KiB, which a rank on the CPU does not copy.
const std::vector<std::string> kLarge{
    "network={name: mlp, arguments: {sizes: [16, 4500, 3]}}",
    "data.arguments={examples: 24, test_examples: 10, classes: 3, shape: "
    "[1, 4, 4]}",
    "schedule={name: constant}", "epochs=1"};

std::vector<std::string> with(std::vector<std::string> sets,
                              const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

TEST(Devices, AGpuAndACpuTakeTheStepsOfTwoCpus) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  const TemporaryFolder folder;
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto cpus =
        run_on(folder, "cpus", group, with(kLarge, {"device=[cpu, cpu]"}));
    ASSERT_EQ(cpus.steps, 3);
    for (const char* devices : {"device=[cuda, cpu]", "device=[cpu, cuda]"}) {
      auto mixed = run_on(folder, devices, group, with(kLarge, {devices}));
      for (auto& [name, tensor] : mixed.weights) tensor = tensor.cpu();
      // Weights below 1, three steps, each with an error of about 2^-24 of sums
      // of 16.
      EXPECT_LT(largest_difference(cpus.weights, mixed.weights), 1e-4)
          << devices;
      EXPECT_NEAR(cpus.test->loss, mixed.test->loss, 1e-3);
    }
  });
}

// f16 on one rank needs a loss scale, which the other rank must use, too.
TEST(Devices, EachRankFollowsThePlanOfItsDevice) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  const TemporaryFolder folder;
  const auto plan = folder.path() / "plan.json";
  write_file_atomically(
      plan,
      concat(R"({"precision": {"other": "f16", "layers": {}},)",
             R"("devices": [{"device": ")", topo::processor_name(),
             R"(", "precision": {"other": "bf16",)", R"("layers": {}}}]})"));
  comm::run_threads(2, [&](const comm::Group& group) {
    const std::vector<std::string> more{"device=[cuda, cpu]", "epochs=8"};
    const auto f32 = run_on(folder, "f32", group, with(kLarge, more));
    const auto low =
        run_on(folder, "low", group,
               with(with(kLarge, more), {"plan=" + plan.string()}));
    EXPECT_FALSE(has_same_bits(f32.weights, low.weights));
    // The first steps are skipped until the loss scale is found. In the other
    // steps the first layer moves in the same direction: bf16 rounds to 2^-8,
    // which changes the direction far less than the skipped batches do.
    ASSERT_EQ(f32.steps, 24);
    EXPECT_LE(low.skipped_steps, 4);
    const auto start =
        tensor::state_dict(*make_model(small_run(kLarge)).module);
    ASSERT_EQ(start[0].first, f32.weights[0].first);
    const auto moved = [&](const RunResult& result) {
      return (result.weights[0].second.detach().cpu() - start[0].second)
          .flatten()
          .to(torch::kDouble);
    };
    const double both =
        moved(f32).norm().item<double>() * moved(low).norm().item<double>();
    ASSERT_GT(both, 0);
    EXPECT_GT(moved(f32).dot(moved(low)).item<double>() / both, 0.9);
    EXPECT_NEAR(
        moved(low).norm().item<double>() / moved(f32).norm().item<double>(), 1,
        0.5);
  });
}

TEST(Devices, ACheckpointIsForAnyDevice) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
  const TemporaryFolder folder;
  comm::run_threads(2, [&](const comm::Group& group) {
    run_on(folder, "run", group, with(kLarge, {"device=[cuda, cpu]"}));
    TrainOptions options;
    options.is_resumed = true;
    options.accepts_changes = true;  // other devices round differently
    const auto more = run_in(
        group, folder.path() / "run",
        small_run(with(kLarge, {"device=[cpu, cuda]", "epochs=2"})), options);
    EXPECT_EQ(more.steps, 6);
    const auto cpus = run_on(folder, "cpus", group, with(kLarge, {"epochs=2"}));
    EXPECT_NEAR(cpus.test->loss, more.test->loss, 1e-3);
  });
}

}  // namespace
}  // namespace sheaf::train

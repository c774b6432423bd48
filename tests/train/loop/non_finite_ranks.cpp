// Steps that are not finite on one of several ranks.
#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"
#include "tests/support/world.hpp"
#include "tests/train/loop/gb_runs.hpp"
#include "tests/train/loop/non_finite_runs.hpp"

namespace sheaf::train {
namespace {

using test::world;
using torch::Tensor;

int last_rank() { return world().size() - 1; }

// On all ranks the same step ends the run; rank 0 reports the cause.
void expect_stop(const std::string& place, const RunConfig& config,
                 const TrainOptions& options,
                 std::initializer_list<std::string> words) {
  const auto start = [&] { run_in(world(), place, config, options); };
  if (world().rank() == 0)
    expect_throws<NonFiniteError>(start, words);
  else
    EXPECT_THROW(start(), FailedOnRoot);
}

Model model_with(FaultyImpl::Fault fault, int forwards) {
  const bool is_mine = world().rank() == last_rank();
  return lasting_fault(
      is_mine ? fault : [](const Tensor& y) { return y; }, forwards);
}

const std::vector<std::vector<std::string>> kKinds{
    {},
    {"accumulate=2"},
    {"parallel.compression=f16"},
    {"parallel.compression=powersgd"},
    {"parallel.strategy=dad"},
    {"parallel.strategy=edad"},
    {"parallel.strategy=rank-dad", "dad.rank=2"},
};

TEST(NonFiniteRanks, TheRankAndTheLayerAreNamed) {
  const SharedFolder folder(world());
  int number = 0;
  for (const auto& sets : kKinds) {
    SCOPED_TRACE(sets.empty() ? "plain" : sets.back());
    // Strategy none requires a single rank and is not tested here.
    const RunConfig config = small_run(sets);
    const int pieces = config.accumulate;
    TrainOptions options;
    options.model = model_with(
        [](const Tensor& y) { return y.mul(1e30).mul(1e30); }, 1 + pieces);
    const std::string rank = concat("Found first on rank ", last_rank(), ": ");
    expect_stop(folder / std::to_string(number++), config, options,
                {"step 1 (epoch 1, batch 2)", rank,
                 "the output of aten::mul after layer 'one'"});
    options.model =
        model_with([](const Tensor& y) { return y.mul(0).sqrt(); }, 1 + pieces);
    expect_stop(folder / std::to_string(number++), config, options,
                {"step 1 (epoch 1, batch 2)", rank,
                 "the gradient of aten::sqrt after layer 'one'"});
  }
}

// All ranks skip the step and keep equal weights, also those without the fault.
TEST(NonFiniteRanks, ASkippedStepIsSkippedByAll) {
  const SharedFolder folder(world());
  int number = 0;
  for (const auto& sets : kKinds) {
    SCOPED_TRACE(sets.empty() ? "plain" : sets.back());
    auto more = sets;
    more.insert(more.end(), {"on_non_finite=skip", "check_weights_every=1"});
    const RunConfig config = small_run(more);
    TrainOptions options;
    const bool is_mine = world().rank() == last_rank();
    options.model = faulty_model([](const Tensor& y) { return y / 0.0; },
                                 is_mine ? 1 + config.accumulate : 1000);
    const auto result =
        run_in(world(), folder / std::to_string(number++), config, options);
    EXPECT_EQ(result.skipped_steps, 1);
    EXPECT_EQ(result.steps, 12);
    EXPECT_TRUE(std::isfinite(result.test->loss));
  }
}

// Images that are split over ranks.
TEST(NonFiniteRanks, CutImages) {
  const SharedFolder folder(world());
  const RunConfig config = small_run(
      {"parallel.strategy=spatial", concat("parallel.grid=1x", world().size()),
       "network={name: layers, arguments: {input: 1x4x4}, layers: "
       "[conv2d: {out_channels: 2, kernel: 3, padding: 1}, relu, flatten, "
       "linear: {out_features: 3}]}"});
  TrainOptions options;
  options.data = spoilt_data(config, {3});
  expect_stop(folder / "a", config, options,
              {"(epoch 1, batch ", "Found first on rank 0: "});
}

// Only the last rank's part is not finite. Its neighbors receive some of it in
// halos, and all ranks in sums.
TEST(NonFiniteRanks, CutImagesOfPretraining) {
  const SharedFolder folder(world());
  const std::string ranks = std::to_string(world().size());
  int number = 0;
  for (const std::string& grid : {ranks + "x1", "1x" + ranks}) {
    SCOPED_TRACE(grid);
    const RunConfig config =
        gb_run({"parallel={strategy: spatial, grid: " + grid + "}"});
    TrainOptions options;
    options.data = spoilt_data(config, world().rank() == last_rank()
                                           ? std::vector<std::int64_t>{3}
                                           : std::vector<std::int64_t>{});
    expect_stop(
        folder / std::to_string(number++), config, options,
        {"stage 1, epoch 1, batch ", "of pre-training is not finite",
         concat("Found first on rank ", last_rank(), ": the input images")});
  }
}

}  // namespace
}  // namespace sheaf::train

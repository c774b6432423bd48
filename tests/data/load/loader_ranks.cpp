// Every example of an epoch reaches exactly one rank.

#include <gtest/gtest.h>

#include <numeric>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/work.hpp"
#include "sheaf/data/load/loader.hpp"
#include "tests/support/world.hpp"

namespace sheaf::data {
namespace {

constexpr std::int64_t kExamples = 103;

std::shared_ptr<const Dataset> numbers() {
  return std::make_shared<TensorDataset>(at::arange(kExamples, at::kFloat),
                                         at::arange(kExamples));
}

TEST(LoaderRanks, EveryExampleReachesOneRank) {
  const comm::Group& world = test::world();
  Loader loader(numbers(), world, {.global_batch = 8, .workers = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::int64_t> counts(kExamples);
    for (Batch& batch : loader) {
      const auto* target = batch.target.data_ptr<std::int64_t>();
      for (std::int64_t i = 0; i < batch.size(); ++i)
        ++counts[static_cast<std::size_t>(target[i])];
      std::vector<std::int64_t> size = {batch.size()};
      comm::all_reduce(world, size).wait();
      EXPECT_EQ(size[0], batch.global_size);
    }
    comm::all_reduce(world, counts).wait();
    EXPECT_EQ(counts, std::vector<std::int64_t>(kExamples, 1));
  }
}

TEST(LoaderRanks, BatchSizeIsPerRank) {
  const comm::Group& world = test::world();
  const Loader loader(numbers(), world, {.batch_size = 4});
  EXPECT_EQ(loader.global_batch(), 4 * world.size());
}

}  // namespace
}  // namespace sheaf::data

#include "sheaf/parallel/data/bucket_layout.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

constexpr std::int64_t kLarge = 256 << 8;  // 256 KiB of floats

std::vector<TrainedParameter> parameters_of(
    const std::vector<std::int64_t>& sizes) {
  std::vector<TrainedParameter> list;
  for (const std::int64_t size : sizes)
    list.push_back({"w", torch::zeros({size})});
  return list;
}

TEST(BucketLayout, LargeParametersAreExchangedInPlace) {
  run_threads(1, [](const Group& group) {
    const auto parameters = parameters_of({3, kLarge, 5});
    const BucketLayout layout(parameters, group, {.takes_outside = true});
    EXPECT_EQ(layout.bucket_numbers(), (std::vector<std::size_t>{1, 0, 1}));
    EXPECT_EQ(layout.sizes_in_place(), std::vector<std::size_t>{4 * kLarge});
    const BucketLayout inside(parameters, group, {});
    EXPECT_EQ(inside.size(), 1u);
    EXPECT_TRUE(inside.sizes_in_place().empty());
  });
}

TEST(BucketLayout, RebuildsInTheGivenOrderAndMovesGradients) {
  run_threads(1, [](const Group& group) {
    auto parameters = parameters_of({2, 2, 2});
    BucketLayout layout(parameters, group, {.caps = {8, 8}});
    EXPECT_EQ(layout.bucket_numbers(), (std::vector<std::size_t>{2, 1, 0}));
    layout.put(0, torch::full({2}, 7.0), /*owns_memory=*/true);
    parameters[0].tensor.mutable_grad() = layout.gradient(0);
    const at::Tensor users = torch::full({2}, 5.0);
    parameters[1].tensor.mutable_grad() = users;
    EXPECT_FALSE(layout.is_rebuilt());
    layout.rebuild({1, 0, 2});
    EXPECT_TRUE(layout.is_rebuilt());
    EXPECT_EQ(layout.bucket_numbers(), (std::vector<std::size_t>{1, 0, 2}));
    const at::Tensor& moved = parameters[0].tensor.grad();
    EXPECT_TRUE(moved.is_same(layout.gradient(0)));
    EXPECT_TRUE(moved.equal(torch::full({2}, 7.0)));
    EXPECT_TRUE(parameters[1].tensor.grad().is_same(users));
    EXPECT_FALSE(parameters[2].tensor.grad().defined());
  });
}

TEST(BucketLayout, PutsZerosOrTheEarlierGradient) {
  run_threads(1, [](const Group& group) {
    const auto parameters = parameters_of({2});
    BucketLayout layout(parameters, group, {});
    layout.put(0, torch::ones({2}), /*owns_memory=*/true);
    layout.put_nothing(0, {});
    EXPECT_TRUE(layout.gradient(0).equal(torch::zeros({2})));
    layout.put_nothing(0, torch::full({2}, 3.0));
    EXPECT_TRUE(layout.gradient(0).equal(torch::full({2}, 3.0)));
  });
}

// The last bucket has a status if its block can hold one and the exchange
// preserves it.
TEST(BucketLayout, TheLastBucketHasAStatus) {
  run_threads(1, [](const Group& group) {
    const auto has_status = [&](const std::vector<std::int64_t>& sizes,
                                const BucketLayoutOptions& options) {
      const auto parameters = parameters_of(sizes);
      const BucketLayout layout(parameters, group, options);
      for (std::size_t i = 0; i + 1 < layout.size(); ++i)
        EXPECT_FALSE(layout[i].has_status());
      return layout.status_bucket() != nullptr;
    };
    EXPECT_TRUE(has_status({4, 4}, {.keeps_zeros = true}));
    EXPECT_TRUE(has_status({4, 4}, {.caps = {4, 4}, .keeps_zeros = true}));
    EXPECT_FALSE(has_status({4, 4}, {.keeps_zeros = false}));
    const BucketLayoutOptions plain{.takes_outside = true, .keeps_zeros = true};
    EXPECT_TRUE(has_status({kLarge, 4}, plain));
    EXPECT_FALSE(has_status({kLarge, kLarge}, plain));  // all in place
  });
}

// Between more than two hosts, additional elements could change the order of
// additions.
TEST(BucketLayout, NoMessageBecomesLongerBetweenManyHosts) {
  for (const int hosts : {1, 2, 3}) {
    std::vector<std::string> names;
    for (int i = 0; i < hosts; ++i) names.push_back("h" + std::to_string(i));
    run_threads(names, [&](const Group& group) {
      const auto has_status = [&](const std::vector<std::int64_t>& sizes) {
        const auto parameters = parameters_of(sizes);
        return BucketLayout(parameters, group, {.keeps_zeros = true})
                   .status_bucket() != nullptr;
      };
      EXPECT_TRUE(has_status({16, 3}));  // has padding
      EXPECT_EQ(has_status({16, 16}), hosts <= 2);
    });
  }
}

}  // namespace
}  // namespace sheaf::parallel

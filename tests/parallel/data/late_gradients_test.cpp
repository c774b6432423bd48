#include "sheaf/parallel/data/late_gradients.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

TEST(LateGradients, AreSummedThenAveraged) {
  run_threads(2, [](const Group& group) {
    const std::vector<TrainedParameter> parameters{{"w", torch::ones({3})},
                                                   {"v", torch::ones({3})}};
    at::Tensor& gradient = parameters[0].tensor.mutable_grad();
    LateGradients late(parameters);
    EXPECT_FALSE(late.has(0));
    if (group.rank() == 0)  // in two parts
      for (const double value : {1.0, 2.0}) {
        gradient = torch::full({3}, value);
        late.take(0);
      }
    EXPECT_EQ(late.has(0), group.rank() == 0);
    EXPECT_FALSE(late.has(1));
    gradient = torch::full({3}, 10.0);
    EXPECT_EQ(late.add_average(0, group, /*divisor=*/2, "late"), 3 * 4);
    EXPECT_TRUE(gradient.equal(torch::full({3}, 11.5)));
    late.clear();
    EXPECT_FALSE(late.has(0));
  });
}

TEST(LateGradients, AreCopies) {
  const std::vector<TrainedParameter> parameters{{"w", torch::ones({3})}};
  LateGradients late(parameters);
  at::Tensor& gradient = parameters[0].tensor.mutable_grad();
  gradient = torch::ones({3});
  late.take(0);
  gradient.fill_(7);
  run_threads(1, [&](const Group& group) {
    gradient.zero_();
    late.add_average(0, group, 1, "late");
    EXPECT_TRUE(gradient.equal(torch::ones({3})));
  });
}

TEST(LateGradients, MustNotBeSparse) {
  const std::vector<TrainedParameter> parameters{
      {"table", torch::ones({3}), /*is_sparse=*/true}};
  LateGradients late(parameters);
  try {
    late.take(0);
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_NE(std::string(error.what()).find("table"), std::string::npos);
  }
}

}  // namespace
}  // namespace sheaf::parallel

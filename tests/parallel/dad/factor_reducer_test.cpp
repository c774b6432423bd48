#include "sheaf/parallel/dad/factor_reducer.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

at::Tensor weight_of_ones(std::int64_t out, std::int64_t in) {
  return torch::ones({out, in}, at::kDouble).set_requires_grad(true);
}

// y = relu(x A^T) B^T, with both weights on one route. For rows of v, the
// gradient of A is 2 v per row, and that of B is 3 v per row.
class FactorTraining {
 public:
  FactorTraining(const Group& group, Route route)
      : reducer(parameters, group, plan_for(route), {}, pass),
        watch_({a, b}, [this](const Product& one) { reducer.add(one); }) {
    pass.connect({&reducer}, reducer.connections());
  }
  ~FactorTraining() { pass.disconnect(); }

  at::Tensor forward(const at::Tensor& x) {
    reducer.forget_reset_gradients();
    watch_.start();
    at::Tensor y = torch::relu(x.mm(a.t())).mm(b.t());
    watch_.stop();
    pass.watch({&y});
    reducer.after_forward({&y});
    return y;
  }
  // Two rows, with the number of the rank, starting with one.
  static at::Tensor rows(const Group& group) {
    return torch::full({2, 3}, group.rank() + 1.0, at::kDouble);
  }
  void expect_gradients(double of_a, double of_b) const {
    ASSERT_TRUE(a.grad().defined() && b.grad().defined());
    EXPECT_TRUE(a.grad().equal(torch::full_like(a, of_a))) << a.grad();
    EXPECT_TRUE(b.grad().equal(torch::full_like(b, of_b))) << b.grad();
  }
  void reset_gradients() const {
    a.mutable_grad().reset();
    b.mutable_grad().reset();
  }

  const at::Tensor a = weight_of_ones(4, 3);
  const at::Tensor b = weight_of_ones(2, 4);
  const std::vector<TrainedParameter> parameters{{"a", a}, {"b", b}};
  BackwardPass pass;
  FactorReducer reducer;

 private:
  static FactorPlan plan_for(Route route) {
    return {.routes = {route, route},
            .is_bias = {false, false},
            .calls = {1, 1},
            .forward = {{0, 1}},
            .backward = {{1}, {0}}};
  }
  ProductWatch watch_;
};

TEST(FactorReducer, AveragesOverRanks) {
  for (const Route route : {Route::kDad, Route::kEdad})
    run_threads(2, [=](const Group& group) {
      FactorTraining training(group, route);
      for (int step = 0; step < 3; ++step) {
        training.reset_gradients();
        training.forward(training.rows(group)).sum().backward();
        training.expect_gradients(2 * 2 * 1.5, 2 * 3 * 1.5);
      }
      const FactorReducer& reducer = training.reducer;
      EXPECT_EQ(reducer.stats().passes, 3);
      EXPECT_EQ(reducer.stats_of(0).rows, 4);
      EXPECT_EQ(reducer.stats_of(0).own_rows, 2);
      EXPECT_EQ(reducer.stats_of(1).own_rows, 2);
      EXPECT_EQ(reducer.source_of(0).has_value(), route == Route::kEdad);
      training.reducer.reset_stats();
      EXPECT_EQ(reducer.stats().passes, 0);
    });
}

TEST(FactorReducer, RanksMayHaveAnyNumberOfRows) {
  run_threads(3, [](const Group& group) {
    FactorTraining training(group, Route::kDad);
    const at::Tensor rows = torch::ones({group.rank(), 3}, at::kDouble);
    training.forward(rows).sum().backward();
    training.expect_gradients(2 * (1 + 2) / 3.0, 3 * (1 + 2) / 3.0);
  });
}

TEST(FactorReducer, RowsWithoutExchangeCountInTheNextPass) {
  run_threads(2, [](const Group& group) {
    FactorTraining training(group, Route::kDad);
    const at::Tensor x = training.rows(group);
    EXPECT_FALSE(training.reducer.has_local());
    training.pass.set_sync(false);
    training.forward(x).sum().backward();
    EXPECT_TRUE(training.reducer.has_local());
    training.expect_gradients(0, 0);
    training.pass.set_sync(true);
    training.forward(x).sum().backward();
    EXPECT_FALSE(training.reducer.has_local());
    training.expect_gradients(2 * 2 * 2 * 1.5, 2 * 2 * 3 * 1.5);
  });
}

TEST(FactorReducer, RowsWithoutExchangeAreForgottenWithTheirGradients) {
  run_threads(2, [](const Group& group) {
    FactorTraining training(group, Route::kDad);
    const at::Tensor x = training.rows(group);
    training.pass.set_sync(false);
    training.forward(x).sum().backward();
    training.pass.set_sync(true);
    training.reset_gradients();
    EXPECT_FALSE(training.reducer.has_local());
    training.forward(x).sum().backward();
    training.expect_gradients(2 * 2 * 1.5, 2 * 3 * 1.5);
  });
}

// A hook of the user needs to see the gradient, which is then a remainder. The
// other rank's hook would see nothing.
TEST(FactorReducer, ARankMayLeaveAGradientToBackward) {
  run_threads(2, [](const Group& group) {
    FactorTraining training(group, Route::kDad);
    const at::Tensor loss = training.forward(training.rows(group)).sum();
    if (group.rank() == 0)
      training.a.register_hook([](const at::Tensor& g) { return g * 3; });
    loss.backward();
    training.expect_gradients(2 * 2 * (3 * 1 + 2) / 2.0, 2 * 3 * 1.5);
  });
}

// Other uses of a weight are remainders as well.
TEST(FactorReducer, PenaltiesAreAddedToTheProducts) {
  run_threads(2, [](const Group& group) {
    FactorTraining training(group, Route::kDad);
    const at::Tensor y = training.forward(training.rows(group));
    (y.sum() + training.b.sum() * (group.rank() + 1.0)).backward();
    training.expect_gradients(2 * 2 * 1.5, 2 * 3 * 1.5 + 1.5);
  });
}

TEST(FactorReducer, IsIdleWithoutGraphsAndRows) {
  run_threads(2, [](const Group& group) {
    FactorTraining training(group, Route::kDad);
    EXPECT_TRUE(training.reducer.is_idle());
    at::Tensor y = training.forward(training.rows(group));
    EXPECT_FALSE(training.reducer.is_idle());
    y.sum().backward();
    y.reset();
    EXPECT_TRUE(training.reducer.is_idle());
    training.pass.set_sync(false);
    training.forward(training.rows(group)).sum().backward();
    EXPECT_FALSE(training.reducer.is_idle()) << "rows are kept";
  });
}

TEST(FactorReducer, ItsGraphsAreUselessAfterItsEnd) {
  run_threads(1, [](const Group& group) {
    auto training = std::make_unique<FactorTraining>(group, Route::kDad);
    const at::Tensor loss = training->forward(training->rows(group)).sum();
    training.reset();
    expect_throws<UsageError>(
        [&] { loss.backward(); },
        {"recorded before its module changed", "call forward() again"});
  });
}

// Weights on factor routes and their biases; other parameters have another
// sink.
TEST(FactorReducer, IsConnectedToItsParameters) {
  run_threads(1, [](const Group& group) {
    const std::vector<TrainedParameter> parameters{
        {"weight", weight_of_ones(2, 3)},
        {"bias", weight_of_ones(1, 2)},
        {"norm", weight_of_ones(1, 2)}};
    BackwardPass pass;
    FactorReducer reducer(
        parameters, group,
        {.routes = {Route::kDad, Route::kGradient, Route::kGradient},
         .is_bias = {false, true, false},
         .calls = {1, 0, 0},
         .forward = {{0}},
         .backward = {{0}}},
        {}, pass);
    EXPECT_TRUE(reducer.takes(0));
    EXPECT_FALSE(reducer.takes(1));
    EXPECT_FALSE(reducer.takes(2));
    const auto connections = reducer.connections();
    ASSERT_EQ(connections.size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_TRUE(connections[i].parameter.is_same(parameters[i].tensor));
      EXPECT_EQ(connections[i].sink, &reducer);
      EXPECT_EQ(connections[i].index, i);
    }
  });
}

}  // namespace
}  // namespace sheaf::parallel

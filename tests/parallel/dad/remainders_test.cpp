#include "sheaf/parallel/dad/remainders.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

struct OneRemainder {
  std::vector<TrainedParameter> list{{"w", torch::ones({2})}};
  Remainders remainders{list, {0}};

  at::Tensor& gradient() { return list[0].tensor.mutable_grad(); }
  void arrive(double value, bool owns_memory = true) {
    gradient() = torch::full({2}, value);
    remainders.take({.parameter = 0, .owns_memory = owns_memory});
  }
  void expect(double value) {
    ASSERT_TRUE(gradient().defined());
    EXPECT_TRUE(gradient().equal(torch::full({2}, value))) << gradient();
  }
};

TEST(Remainders, AreTakenAndAveraged) {
  run_threads(2, [](const Group& group) {
    OneRemainder one;
    EXPECT_FALSE(one.remainders.has_any());
    if (group.rank() == 0)  // in two parts
      for (const double value : {3.0, 5.0}) {
        one.arrive(value);
        EXPECT_FALSE(one.gradient().defined());
      }
    EXPECT_EQ(one.remainders.has_arrived(0), group.rank() == 0);
    EXPECT_EQ(one.remainders.to_average(),
              group.rank() == 0 ? Numbers{0} : Numbers{});
    EXPECT_EQ(
        one.remainders.settle(0, group, /*is_averaged=*/true, torch::ones({2})),
        2 * 4);
    one.expect(4 + 1);
    one.remainders.clear();
    EXPECT_FALSE(one.remainders.has_any());
  });
}

TEST(Remainders, OfZerosAreNotAveraged) {
  OneRemainder one;
  one.arrive(0);
  EXPECT_TRUE(one.remainders.has_arrived(0));
  EXPECT_TRUE(one.remainders.to_average().empty());
}

TEST(Remainders, WithoutOneTheGradientIsThatFromFactors) {
  run_threads(1, [](const Group& group) {
    OneRemainder one;
    const at::Tensor made = torch::full({2}, 3.0);
    EXPECT_EQ(one.remainders.settle(0, group, /*is_averaged=*/false, made), 0);
    EXPECT_TRUE(one.gradient().is_same(made));
    // Added to the gradient of an earlier pass.
    one.gradient() = torch::ones({2});
    one.remainders.settle(0, group, /*is_averaged=*/false, made);
    one.expect(4);
    one.remainders.settle(0, group, /*is_averaged=*/false, {});
    one.expect(4);
  });
}

TEST(Remainders, MemoryThatOthersReadIsNotWrittenTo) {
  run_threads(1, [](const Group& group) {
    OneRemainder one;
    const at::Tensor shared = torch::full({2}, 3.0);
    one.gradient() = shared;
    one.remainders.take({.parameter = 0, .owns_memory = false});
    one.remainders.settle(0, group, /*is_averaged=*/true, torch::ones({2}));
    one.expect(4);
    EXPECT_TRUE(shared.equal(torch::full({2}, 3.0)));
  });
}

TEST(Remainders, AreWrittenToMemoryOfTheUser) {
  run_threads(1, [](const Group& group) {
    OneRemainder one;
    const at::Tensor flat = torch::full({4}, 3.0);
    one.gradient() = flat.narrow(0, 1, 2);
    one.remainders.take(
        {.parameter = 0, .owns_memory = false, .is_in_use = true});
    EXPECT_TRUE(flat.equal(torch::tensor({3.0, 0.0, 0.0, 3.0})));
    one.remainders.settle(0, group, /*is_averaged=*/true, torch::ones({2}));
    EXPECT_TRUE(flat.equal(torch::tensor({3.0, 4.0, 4.0, 3.0})));
    EXPECT_TRUE(one.gradient().is_alias_of(flat));
  });
}

TEST(Remainders, OfPassesWithoutExchangeStayUntilTheyAreReset) {
  OneRemainder one;
  one.gradient() = torch::ones({2});
  one.remainders.note_local({.parameter = 0});
  one.remainders.mark_local(0);
  EXPECT_FALSE(one.remainders.has_arrived(0));
  EXPECT_EQ(one.remainders.to_average(), Numbers{0});
  one.remainders.forget_reset();
  EXPECT_TRUE(one.remainders.has_any());
  one.gradient().reset();
  one.remainders.forget_reset();
  EXPECT_FALSE(one.remainders.has_any());
}

// As a program does that resets gradients, and then assigns views of a buffer.
TEST(Remainders, AnAssignedGradientIsMemoryOfTheUser) {
  for (const double assigned : {0.0, 5.0})
    run_threads(1, [assigned](const Group& group) {
      OneRemainder one;
      one.gradient() = torch::ones({2});
      one.remainders.note_local({.parameter = 0, .owns_memory = false});
      one.remainders.mark_local(0);
      const at::Tensor flat = torch::full({4}, assigned);
      one.gradient() = flat.narrow(0, 1, 2);
      one.remainders.forget_reset();
      const bool is_sent = one.remainders.has_any();
      EXPECT_EQ(is_sent, assigned != 0);
      one.remainders.settle(0, group, is_sent, torch::ones({2}));
      EXPECT_EQ(flat[1].item<double>(), assigned + 1);
      EXPECT_TRUE(one.gradient().is_alias_of(flat));
    });
}

TEST(Remainders, ADiscardedOneResetsTheGradientItBelongsTo) {
  for (const bool is_local : {false, true})
    for (const bool stands_for_rows : {false, true}) {
      OneRemainder one;
      one.gradient() = torch::ones({2});
      if (is_local) one.remainders.mark_local(0);
      one.remainders.discard(0, stands_for_rows, {});
      EXPECT_EQ(one.gradient().defined(), !is_local && !stands_for_rows);
      EXPECT_FALSE(one.remainders.has_any());
    }
}

TEST(Remainders, ADiscardedOneInMemoryOfTheUserIsSetToZero) {
  OneRemainder one;
  const at::Tensor flat = torch::full({4}, 3.0);
  one.gradient() = flat.narrow(0, 1, 2);
  one.remainders.discard(0, /*stands_for_rows=*/true, {});
  EXPECT_TRUE(flat.equal(torch::tensor({3.0, 0.0, 0.0, 3.0})));
  EXPECT_TRUE(one.gradient().is_alias_of(flat));
}

}  // namespace
}  // namespace sheaf::parallel

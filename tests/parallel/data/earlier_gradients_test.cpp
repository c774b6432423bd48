#include "sheaf/parallel/data/earlier_gradients.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace sheaf::parallel {
namespace {

struct OneParameter {
  std::vector<TrainedParameter> list{{"w", torch::ones({2})}};
  EarlierGradients earlier{list};
  at::Tensor in_bucket = torch::zeros({2});

  at::Tensor& gradient() { return list[0].tensor.mutable_grad(); }
  void expect(double value) {
    ASSERT_TRUE(gradient().defined());
    EXPECT_TRUE(gradient().equal(torch::full({2}, value))) << gradient();
  }
};

NewGradient arrived(bool is_in_use) {
  return {.parameter = 0, .owns_memory = !is_in_use, .is_in_use = is_in_use};
}

TEST(EarlierGradients, LocalOnesAreKnownUntilTheyAreReset) {
  OneParameter one;
  EXPECT_FALSE(one.earlier.has_local());
  one.gradient() = torch::ones({2});
  EXPECT_TRUE(one.earlier.has_average());
  one.earlier.note_local(arrived(false));
  EXPECT_TRUE(one.earlier.is_local(0));
  EXPECT_TRUE(one.earlier.has_local());
  EXPECT_FALSE(one.earlier.has_average());
  one.gradient().reset();
  EXPECT_FALSE(one.earlier.has_local());
  one.earlier.forget_all_local();
  EXPECT_FALSE(one.earlier.is_local(0));
}

TEST(EarlierGradients, ZerosAreNoAverage) {
  OneParameter one;
  one.gradient() = torch::zeros({2});
  EXPECT_FALSE(one.earlier.has_average());
}

TEST(EarlierGradients, AveragesReturnAfterThePass) {
  OneParameter one;
  one.gradient() = torch::full({2}, 3.0);
  one.earlier.set_averages_aside();
  one.expect(0);
  one.earlier.replace(0, torch::full({2}, 2.0));
  one.earlier.add_averages();
  one.expect(5);
  one.earlier.add_averages();  // once only
  one.expect(5);
}

TEST(EarlierGradients, LocalOnesAreNotSetAside) {
  OneParameter one;
  one.gradient() = torch::full({2}, 3.0);
  one.earlier.set_local(0);
  one.earlier.set_averages_aside();
  one.expect(3);
}

TEST(EarlierGradients, TheAverageIsWrittenToMemoryOfTheUser) {
  OneParameter one;
  const at::Tensor flat = torch::full({4}, 3.0);
  one.gradient() = flat.narrow(0, 1, 2);
  one.earlier.note_memory(arrived(true), one.in_bucket);
  one.earlier.take_away(0);
  EXPECT_TRUE(flat.equal(torch::tensor({3.0, 0.0, 0.0, 3.0})));
  one.earlier.replace(0, torch::full({2}, 2.0));
  EXPECT_TRUE(flat.equal(torch::tensor({3.0, 2.0, 2.0, 3.0})));
  EXPECT_TRUE(one.gradient().is_alias_of(flat));
}

// The bucket's own tensor, and memory that backward() shares, are not the
// user's.
TEST(EarlierGradients, OtherGradientsAreTakenAway) {
  OneParameter one;
  one.gradient() = one.in_bucket;
  one.earlier.note_memory(arrived(true), one.in_bucket);
  one.earlier.take_away(0);
  EXPECT_FALSE(one.gradient().defined());

  const at::Tensor shared = torch::ones({2});
  one.gradient() = shared;
  one.earlier.note_local({.parameter = 0, .owns_memory = false});
  one.earlier.note_memory(arrived(true), one.in_bucket);
  one.earlier.take_away(0);
  EXPECT_FALSE(one.gradient().defined());
  EXPECT_TRUE(shared.equal(torch::ones({2})));
}

TEST(EarlierGradients, UnusedParametersKeepTheirGradients) {
  OneParameter one;
  one.gradient() = torch::full({2}, 0.1);
  const at::Tensor before = one.gradient().clone();
  EXPECT_TRUE(one.earlier.keep(0, one.in_bucket).equal(before));
  one.gradient().fill_(7);
  one.earlier.restore(0);
  EXPECT_TRUE(one.gradient().equal(before));
  one.earlier.end_pass();
  one.gradient().fill_(7);
  one.earlier.restore(0);  // nothing is kept any more
  one.expect(7);
}

TEST(EarlierGradients, NothingIsKeptOfAParameterWithoutGradient) {
  OneParameter one;
  EXPECT_FALSE(one.earlier.keep(0, one.in_bucket).defined());
  one.earlier.restore(0);
  EXPECT_FALSE(one.gradient().defined());
}

TEST(EarlierGradients, HiddenMemoryOfTheUserIsRestored) {
  OneParameter one;
  const at::Tensor flat = torch::full({4}, 3.0);
  one.gradient() = flat.narrow(0, 1, 2);
  const at::Tensor content = one.earlier.hide(0, one.in_bucket);
  EXPECT_FALSE(one.gradient().defined());
  EXPECT_TRUE(content.equal(torch::full({2}, 3.0)));
  one.earlier.unhide(0, content);
  one.expect(0);
  EXPECT_TRUE(one.gradient().is_alias_of(flat));
  one.earlier.restore(0);
  EXPECT_TRUE(flat.equal(torch::full({4}, 3.0)));
}

TEST(EarlierGradients, OtherHiddenOnesAreGone) {
  OneParameter one;
  one.gradient() = torch::ones({2});
  EXPECT_FALSE(one.earlier.hide(0, one.in_bucket).defined());
  one.earlier.unhide(0, {});
  EXPECT_FALSE(one.gradient().defined());
}

TEST(EarlierGradients, ADiscardedPassRestoresWhatHasNotArrived) {
  OneParameter one;
  one.gradient() = torch::full({2}, 3.0);
  one.earlier.set_local(0);
  one.earlier.keep(0, one.in_bucket);
  one.gradient() = torch::full({2}, 7.0);
  one.earlier.discard(0, /*has_arrived=*/false);
  one.expect(3);
  EXPECT_TRUE(one.earlier.is_local(0));
}

TEST(EarlierGradients, ADiscardedPassLosesWhatHasArrived) {
  OneParameter one;
  one.gradient() = torch::full({2}, 3.0);
  one.earlier.set_averages_aside();
  one.earlier.set_local(0);
  one.earlier.take_away(0);
  one.earlier.discard(0, /*has_arrived=*/true);
  one.earlier.add_averages();
  EXPECT_FALSE(one.gradient().defined());
  EXPECT_FALSE(one.earlier.is_local(0));
}

}  // namespace
}  // namespace sheaf::parallel

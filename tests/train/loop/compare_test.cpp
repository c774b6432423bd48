// Tests the comparison functions that other tests use.
#include "tests/support/compare.hpp"

#include <gtest/gtest-spi.h>

namespace sheaf::test {
namespace {

const at::Tensor& ones() {
  static const at::Tensor tensor = at::ones({3}, at::kDouble);
  return tensor;
}

at::Tensor with(double value) {
  at::Tensor tensor = ones().clone();
  tensor[1] = value;
  return tensor;
}

const double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Compare, GivesTheLargestDifference) {
  EXPECT_EQ(largest_difference(ones(), with(3)), 2);
  EXPECT_EQ(largest_difference(ones(), with(4), Scale::kRelative), 0.75);
  EXPECT_EQ(largest_difference(Tensors{ones(), ones()},
                               Tensors{with(1.5), with(0.75)}),
            0.5);
  EXPECT_EQ(largest_difference(NamedTensors{{"a", ones()}},
                               NamedTensors{{"a", with(2)}}),
            1);
  EXPECT_EQ(largest_difference(at::empty({0}), at::empty({0})), 0);
}

TEST(Compare, ComparesBits) {
  EXPECT_TRUE(has_same_bits(ones(), ones().clone()));
  EXPECT_FALSE(has_same_bits(ones(), with(1 + 1e-16 * 3)));
  EXPECT_FALSE(has_same_bits(with(0.0), with(-0.0)));
  EXPECT_TRUE(has_same_bits(with(kNan), with(kNan), Nan::kMayBeEqual));
}

TEST(Compare, FailsOnWhatIsNotFinite) {
  for (const double bad : {kNan, kNotComparable}) {
    EXPECT_NONFATAL_FAILURE(largest_difference(with(bad), ones()),
                            "not finite");
    EXPECT_NONFATAL_FAILURE(largest_difference(ones(), with(bad)),
                            "not finite");
    EXPECT_NONFATAL_FAILURE(largest_difference(with(bad), with(bad)),
                            "not finite");
  }
  EXPECT_NONFATAL_FAILURE(has_same_bits(with(kNan), with(kNan)), "NaN");
}

TEST(Compare, FailsOnOtherShapesTypesAndNumbers) {
  EXPECT_NONFATAL_FAILURE(
      largest_difference(ones(), at::ones({1}, at::kDouble)),
      "[3] Double against [1] Double");
  EXPECT_NONFATAL_FAILURE(largest_difference(ones(), at::ones({3})), "Float");
  EXPECT_NONFATAL_FAILURE(largest_difference(ones(), at::Tensor()),
                          "undefined");
  EXPECT_NONFATAL_FAILURE(has_same_bits(ones(), at::ones({3})), "Float");
  EXPECT_NONFATAL_FAILURE(largest_difference(Tensors{}, Tensors{}),
                          "0 tensors against 0");
  EXPECT_NONFATAL_FAILURE(largest_difference(Tensors{ones()}, Tensors{}),
                          "1 tensors against 0");
  EXPECT_NONFATAL_FAILURE(has_same_bits(Tensors{}, Tensors{}),
                          "0 tensors against 0");
}

TEST(Compare, FailsOnOtherNames) {
  EXPECT_NONFATAL_FAILURE(largest_difference(NamedTensors{{"a", ones()}},
                                             NamedTensors{{"b", ones()}}),
                          "by name");
}

}  // namespace
}  // namespace sheaf::test

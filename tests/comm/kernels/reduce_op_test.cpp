#include <gtest/gtest.h>

#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

TEST(ReduceOp, EveryNameParsesBack) {
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    EXPECT_EQ(parse_reduce_op(name_of(op)), op) << name_of(op);
  }
}

TEST(ReduceOp, AnUnknownNameIsAnErrorThatListsTheKnownOnes) {
  expect_throws<UsageError>(
      [] { parse_reduce_op("mean"); },
      {"'mean'", "sum, avg, product, min, max, band, bor, bxor"});
}

TEST(ReduceOp, BoolHasNoAverage) {
  EXPECT_FALSE(is_defined(ReduceOp::kAvg, DType::kBool));
  EXPECT_TRUE(is_defined(ReduceOp::kAvg, DType::kI8));
  EXPECT_TRUE(is_defined(ReduceOp::kSum, DType::kBool));
}

TEST(ReduceOp, FloatsHaveNoBitwiseOperations) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    for (auto op : {ReduceOp::kBitAnd, ReduceOp::kBitOr, ReduceOp::kBitXor})
      EXPECT_EQ(is_defined(op, dtype), !is_float(dtype)) << name_of(dtype);
    for (auto op : {ReduceOp::kSum, ReduceOp::kProduct, ReduceOp::kMin})
      EXPECT_TRUE(is_defined(op, dtype)) << name_of(dtype);
  }
}

}  // namespace
}  // namespace sheaf::comm

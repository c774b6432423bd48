#include "sheaf/comm/ddl/reference.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"
#include "tests/support/exact.hpp"

namespace sheaf::comm {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The verdict on one element.
template <class T>
Finding judge(const std::vector<T>& inputs, T output,
              const CheckRule& rule = {dtype_of<T>}) {
  std::vector<const void*> sources;
  for (const T& input : inputs) sources.push_back(&input);
  return examine(rule, sources, &output, 0);
}

TEST(Reference, TakesTheRightSum) {
  EXPECT_EQ(judge<float>({1, 2, 3}, 6).fault, Fault::kNone);
  EXPECT_EQ(judge<float>({1, 2, 3}, 6).error, 0);
  EXPECT_EQ(judge<double>({0.1, 0.2}, 0.1 + 0.2).fault, Fault::kNone);
}

TEST(Reference, RefusesAnErrorBeyondTheBound) {
  // n eps sum|x| = 3 * 2^-23 * 6
  const double bound = 3 * 0x1p-23 * 6;
  const Finding far = judge<float>({1, 2, 3}, 6 + 0x1p-18f);
  EXPECT_EQ(far.fault, Fault::kError);
  EXPECT_DOUBLE_EQ(far.bound, bound);
  EXPECT_DOUBLE_EQ(far.error, 0x1p-18);
  EXPECT_EQ(judge<float>({1, 2, 3}, 6 + 0x1p-20f).fault, Fault::kNone);
  // Three times as strict.
  EXPECT_EQ(
      judge<float>({1, 2, 3}, 6 + 0x1p-20f, {DType::kF32, ReduceOp::kSum, 0.2})
          .fault,
      Fault::kError);
}

// A relative error would be infinite here, although the result is correct.
TEST(Reference, HoldsNearZero) {
  const float big = 1e8f;
  const float order_1 = (big + 3.3f) - big;  // not 3.3
  const Finding found = judge<float>({big, 3.3f, -big}, order_1);
  EXPECT_GT(found.error / std::abs(found.reference), 0.17);
  EXPECT_EQ(found.fault, Fault::kNone);
  // The small number is lost completely, which the magnitude of the inputs
  // allows.
  EXPECT_EQ(judge<float>({big, 3.3f, -big}, 0).fault, Fault::kNone);
  EXPECT_EQ(judge<float>({big, 3.3f, -big}, 100).fault, Fault::kError);
}

// The reference sum of f64 has a higher precision than f64.
TEST(Reference, IsExactForDoubles) {
  const Finding found = judge<double>({1e16, 1, -1e16}, 1);
  EXPECT_EQ(found.error, 0);
  EXPECT_EQ(found.reference, 1);
  EXPECT_EQ(judge<double>({1e16, 1, 1, 1, -1e16}, 3).error, 0);
}

TEST(Reference, DividesAverages) {
  const CheckRule rule{DType::kF32, ReduceOp::kAvg, 1};
  EXPECT_EQ(judge<float>({1, 2, 6}, 3, rule).error, 0);
  EXPECT_EQ(judge<float>({1, 2, 6}, 9, rule).fault, Fault::kError);
  // 1/3 of the smallest f16 rounds to zero.
  const CheckRule half{DType::kF16, ReduceOp::kAvg, 1};
  EXPECT_EQ(judge<Half>({{1}, {0}, {0}}, Half{0}, half).fault, Fault::kNone);
  EXPECT_EQ(judge<Half>({{1}, {0}, {0}}, Half{2}, half).fault, Fault::kError);
}

TEST(Reference, TellsNanOfInputsFromNewOnes) {
  EXPECT_EQ(judge<double>({1, 2}, kNan).fault, Fault::kNan);
  EXPECT_EQ(judge<double>({1, kNan}, kNan).fault, Fault::kNone);
  EXPECT_EQ(judge<double>({1, kNan}, 1).fault, Fault::kLostNan);
  EXPECT_EQ(judge<double>({kInfinity, -kInfinity}, kNan).fault, Fault::kNan);
}

TEST(Reference, AllowsInfinityWhereTheTrueSumOverflows) {
  const float most = std::numeric_limits<float>::max();
  const auto infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(judge<float>({most, most}, infinity).fault, Fault::kNone);
  EXPECT_EQ(judge<float>({most, most}, -infinity).fault, Fault::kInfinity);
  EXPECT_EQ(judge<float>({1, 2}, infinity).fault, Fault::kInfinity);
  EXPECT_EQ(judge<float>({1, infinity}, infinity).fault, Fault::kNone);
  EXPECT_EQ(judge<float>({1, infinity}, 7).fault, Fault::kInfinity);
}

TEST(Reference, WantsIntegersExactly) {
  EXPECT_EQ(judge<std::int32_t>({1, 2}, 3).fault, Fault::kNone);
  EXPECT_EQ(judge<std::int32_t>({1, 2}, 4).fault, Fault::kError);
  EXPECT_EQ(judge<std::int8_t>({100, 100}, -56).fault, Fault::kNone);  // wraps
  const std::int64_t large = std::int64_t{1} << 60;
  EXPECT_EQ(judge<std::int64_t>({large, 1}, large).fault, Fault::kError);
  EXPECT_EQ(judge<std::int64_t>({large, 1}, large).error, 1);
  EXPECT_EQ(
      judge<std::int32_t>({-4, -3}, -3, {DType::kI32, ReduceOp::kAvg, 1}).fault,
      Fault::kNone);
  EXPECT_EQ(judge<std::uint8_t>({0, 1}, 1, {DType::kBool}).fault, Fault::kNone);
  EXPECT_EQ(judge<std::uint8_t>({0, 0}, 1, {DType::kBool}).fault,
            Fault::kError);
}

// check = 1 is derived for any order of additions. Random numbers of very
// different magnitudes, in the library's own order.
TEST(Reference, AcceptsWhatTheLibraryComputes) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> value(-1, 1);
  std::uniform_int_distribution<int> exponent(-6, 6);
  constexpr std::size_t kCount = 2000;
  for (const DType dtype :
       {DType::kF64, DType::kF32, DType::kF16, DType::kBF16})
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg})
      for (const int ranks : {1, 2, 7, 64}) {
        const std::size_t bytes = kCount * size_of(dtype);
        std::vector<std::vector<std::byte>> inputs(
            static_cast<std::size_t>(ranks), std::vector<std::byte>(bytes));
        std::vector<const void*> sources;
        for (auto& input : inputs) {
          for (std::size_t i = 0; i < kCount; ++i)
            test::store(dtype, input.data() + i * size_of(dtype),
                        std::ldexp(value(random), exponent(random)));
          sources.push_back(input.data());
        }
        std::vector<std::byte> output(bytes);
        void* const outputs[] = {output.data()};
        reduce({dtype, op, op == ReduceOp::kAvg ? ranks : 1}, sources, outputs,
               kCount);
        const Verdict verdict =
            verify({dtype, op, 1}, sources, output.data(), kCount);
        EXPECT_TRUE(verdict.is_good()) << name_of(dtype) << " " << ranks << ": "
                                       << describe(verdict.worst);
        EXPECT_EQ(verdict.checked, kCount);
      }
}

TEST(Reference, VerdictNamesTheWorstElement) {
  const std::vector<float> a{1, 1, 1, 1}, b{1, 1, 1, 1};
  const std::vector<float> output{2, 2.1f, 5, 2};
  const void* sources[] = {a.data(), b.data()};
  const Verdict verdict = verify({}, sources, output.data(), 4, /*first=*/100);
  EXPECT_EQ(verdict.wrong, 2u);
  EXPECT_EQ(verdict.worst.element, 102u);
  EXPECT_EQ(verdict.worst.result, 5);
}

TEST(Reference, MergedVerdictsCountTogether) {
  const std::vector<double> ones{1, 1, kNan};
  const void* sources[] = {ones.data()};
  const std::vector<double> output{1, 9, kNan};
  const Verdict first = verify({DType::kF64}, sources, output.data(), 1);
  const Verdict rest = [&] {
    const void* later[] = {ones.data() + 1};
    return verify({DType::kF64}, later, output.data() + 1, 2, 1);
  }();
  const Verdict both = merge(merge({}, first), rest);
  EXPECT_EQ(both.checked, 3u);
  EXPECT_EQ(both.wrong, 1u);
  EXPECT_EQ(both.worst.element, 1u);
  EXPECT_EQ(both.nan_inputs, 1u);
  EXPECT_EQ(both.first_nan_input, 2u);
}

TEST(Reference, ValidatesTheRule) {
  EXPECT_NO_THROW(validate({DType::kF32, ReduceOp::kAvg, 0.5}));
  EXPECT_THROW(validate({DType::kF32, ReduceOp::kMax, 1}), UsageError);
  EXPECT_THROW(validate({DType::kF32, ReduceOp::kSum, -1}), UsageError);
  EXPECT_THROW(validate({DType::kF32, ReduceOp::kSum, kNan}), UsageError);
}

}  // namespace
}  // namespace sheaf::comm

#include "sheaf/parallel/precision/int8_matrix.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>
#include <torch/version.h>

#include "sheaf/parallel/precision/int8_product.hpp"
#include "tests/parallel/precision/precision_cuda.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

class Int8MatrixOnCuda : public Int8OnCuda {};

TEST(Int8Matrix, SizesAreRoundedUp) {
  EXPECT_EQ(int8::round_up(0, 8), 0);
  EXPECT_EQ(int8::round_up(1, 8), 8);
  EXPECT_EQ(int8::round_up(8, 8), 8);
  EXPECT_EQ(int8::round_up(9, 8), 16);
  EXPECT_EQ(int8::round_up(33, 16), 48);
}

TEST(Int8Matrix, TheProductDependsOnTheVersionOfLibtorch) {
  EXPECT_EQ(has_integer_product(),
            TORCH_VERSION_MAJOR * 100 + TORCH_VERSION_MINOR >= 201);
}

thread_local std::vector<std::pair<std::string, std::int64_t>>* reported;

std::unique_ptr<at::ObserverContext> note_report(
    const at::RecordFunction& call) {
  if (reported) reported->emplace_back(call.name(), call.seqNr());
  return nullptr;
}

TEST(Int8Matrix, OperationsAreReportedToObservers) {
  std::vector<std::pair<std::string, std::int64_t>> list;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(note_report));
  reported = &list;
  {
    const int8::RecordedCall with_node("sheaf::test", 7),
        without("sheaf::more");
  }
  reported = nullptr;
  at::removeCallback(handle);
  EXPECT_EQ(list, (std::vector<std::pair<std::string, std::int64_t>>{
                      {"sheaf::test", 7}, {"sheaf::more", -1}}));
}

// Integers up to 127, one of which is 127: the scale is one.
at::Tensor whole_matrix(std::int64_t rows, std::int64_t columns) {
  const at::Tensor all = at::randint(-3, 4, {rows, columns});
  all[rows / 2][columns / 2] = 127;
  return all.to(on_device(at::kHalf));
}

TEST_F(Int8MatrixOnCuda, RowsAndColumnsArePaddedWithZeros) {
  const at::Tensor matrix = whole_matrix(5, 20);
  for (const bool by_channel : {false, true}) {
    const int8::Int8Matrix got = int8::quantized_weight(matrix, by_channel, 32);
    ASSERT_EQ(got.values.sizes(), at::IntArrayRef({8, 32}));
    EXPECT_EQ(got.amax.numel(), by_channel ? 5 : 1);
    EXPECT_EQ(got.values.narrow(0, 5, 3).abs().sum().item<int>(), 0);
    EXPECT_EQ(got.values.narrow(1, 20, 12).abs().sum().item<int>(), 0);
  }
  const int8::Int8Matrix got =
      int8::quantized(matrix, int8::amax_of(matrix), 32, 32);
  EXPECT_EQ(got.amax.item<float>(), 127);
  EXPECT_TRUE(
      got.values.narrow(0, 0, 5).narrow(1, 0, 20).equal(matrix.to(at::kChar)));
}

// All numbers are exact in int8 and in f16.
TEST_F(Int8MatrixOnCuda, ProductsOfIntegersAreExact) {
  const at::Tensor x = whole_matrix(40, 20), w = whole_matrix(24, 20);
  const at::Tensor bias = at::arange(24, on_device(at::kHalf));
  const at::Tensor y = at::empty({40, 24}, on_device(at::kHalf));
  int8::multiply(int8::quantized(x, int8::amax_of(x), 40, 32),
                 int8::quantized_weight(w, false, 32), bias,
                 {40, 24, y.data_ptr(), 0});
  const at::Tensor want =
      x.to(at::kDouble).mm(w.to(at::kDouble).t()) + bias.to(at::kDouble);
  EXPECT_TRUE(y.equal(want.to(at::kHalf)));
}

}  // namespace
}  // namespace sheaf::parallel

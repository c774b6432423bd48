#include "sheaf/tensor/groups/memory.hpp"

#include <gtest/gtest.h>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::tensor {
namespace {

using comm::run_threads;

TEST(TensorTypes, EveryTypeHasItsCounterpart) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const at::ScalarType type = scalar_type_of(dtype);
    EXPECT_EQ(dtype_of(type), dtype);
    EXPECT_EQ(c10::elementSize(type), size_of(dtype));
  }
  EXPECT_EQ(dtype_of(at::kBFloat16), DType::kBF16);
  EXPECT_EQ(dtype_of(at::kHalf), DType::kF16);
  EXPECT_EQ(dtype_of(at::kChar), DType::kI8);
  EXPECT_EQ(dtype_of(at::kByte), DType::kU8);
  for (const auto type : {at::kComplexDouble, at::kQInt8})
    expect_throws<UsageError>([&] { dtype_of(type); },
                              {c10::toString(type), "view_as_real"});
}

// Devices may differ between ranks; shapes and types must not.
TEST(TensorMemory, TheSignatureOfATensorHasNoDevice) {
  const auto here = at::zeros({2, 3});
  const auto there = at::empty({2, 3}, at::TensorOptions(at::kMeta));
  EXPECT_NE(describe(here), describe(there));
  EXPECT_EQ(signature(here), signature(there));
  EXPECT_EQ(signature(here), signature(at::zeros({3, 2}).t()));
  EXPECT_NE(signature(here), signature(at::zeros({3, 2})));
  EXPECT_NE(signature(here), signature(at::zeros({2, 3}, at::kHalf)));
}

TEST(TensorMemory, TensorsAreDescribed) {
  EXPECT_EQ(describe(at::zeros({2, 3}, at::kHalf)), "Half [2, 3] cpu");
  EXPECT_EQ(signature(at::zeros({})), "Float []");
  EXPECT_EQ(describe(at::Tensor()), "an undefined tensor");
  EXPECT_EQ(signature(at::Tensor()), "an undefined tensor");
}

TEST(TensorMemory, SharedTensorsAreOrdinaryTensors) {
  run_threads(2, [](const Group& group) {
    at::Tensor data;
    {
      const at::Tensor whole = empty_shared(group, {4, 3});
      whole.fill_(group.rank() + 1);
      data = whole.view({12}).slice(0, 3);
    }
    all_reduce(group, data).wait();
    EXPECT_TRUE((data == 3).all().item<bool>());
    EXPECT_EQ(empty_shared(group, {0, 3}).numel(), 0);
  });
}

TEST(TensorMemory, SharedTensorsHaveTheTypeAndOutliveTheHandle) {
  run_threads(1, [](const comm::Group& world) {
    comm::Group group = world.split(0);
    const at::Tensor data = empty_shared(group, {2, 3}, at::kShort);
    const at::Tensor none = empty_shared(group, {2, 0}, at::kDouble);
    group = {};
    data.fill_(5);
    EXPECT_EQ(data.sizes(), (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(data.sum().item<int>(), 30);
    EXPECT_EQ(data.scalar_type(), at::kShort);
    EXPECT_EQ(none.scalar_type(), at::kDouble);
    EXPECT_THROW(empty_shared(world, {2}, at::kComplexFloat), UsageError);
  });
}

TEST(TensorMemory, ABufferIsTheMemoryOfTheTensor) {
  const at::Tensor data = at::zeros({4, 3}, at::kInt).narrow(0, 1, 2);
  const comm::Buffer buffer = buffer_of(data);
  EXPECT_EQ(buffer.data, data.data_ptr());
  EXPECT_EQ(buffer.count, 6u);
  EXPECT_EQ(buffer.dtype, DType::kI32);
  EXPECT_THROW(buffer_of(data.t()), InternalError);
}

TEST(TensorMemory, ContiguousTensorsStandForThemselves) {
  const at::Tensor data = at::ones({2, 3}).requires_grad_();
  const at::Tensor memory = staged(data);
  EXPECT_EQ(memory.data_ptr(), data.data_ptr());
  EXPECT_FALSE(memory.requires_grad());
  // A write by an operation is one that autograd sees.
  const auto version = data._version();
  unstage(memory, data);
  EXPECT_EQ(data._version(), version + 1);
}

TEST(TensorMemory, OtherTensorsAreStaged) {
  const at::Tensor values = at::arange(6, at::kFloat).view({2, 3});
  const at::Tensor strided = values.clone().t();
  const at::Tensor negated = at::_neg_view(values.clone());
  for (const at::Tensor& data : {strided, negated}) {
    const at::Tensor memory = staged(data);
    EXPECT_NE(memory.data_ptr(), data.data_ptr());
    EXPECT_TRUE(memory.is_contiguous());
    EXPECT_TRUE(memory.equal(data));
    memory.fill_(9);
    EXPECT_FALSE(data.equal(memory));
    unstage(memory, data);
    EXPECT_TRUE(data.equal(memory));
    EXPECT_EQ(staged(data, /*with_content=*/false).sizes(), data.sizes());
  }
}

// Autograd must not record that the result is copied.
TEST(TensorMemory, ResultsOfParametersAreCopiedBack) {
  const at::Tensor weight = at::zeros({2, 3}).requires_grad_();
  const at::Tensor view = weight.detach().t().requires_grad_();
  const at::Tensor memory = staged(view);
  memory.fill_(4);
  unstage(memory, view);
  EXPECT_EQ(weight.sum().item<float>(), 24);
  EXPECT_TRUE(view.is_leaf() && view.requires_grad());
}

TEST(TensorMemory, OnlyDenseTensorsAreExchanged) {
  expect_throws<UsageError>([] { staged(at::Tensor()); }, {"undefined tensor"});
  expect_throws<UsageError>([] { staged(at::ones({2}).to_sparse()); },
                            {"layout Sparse", "to_dense()"});
}

}  // namespace
}  // namespace sheaf::tensor

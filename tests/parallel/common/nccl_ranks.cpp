// NCCL needs a GPU for each rank of a host. With fewer GPUs, the error is
// tested.

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/nccl.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/world.hpp"

namespace sheaf::parallel {
namespace {

using tensor::nccl::is_enabled;

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU here";
    tensor::nccl::enable(group_);
    if (!is_enabled(group_)) GTEST_SKIP() << "no NCCL in this build";
    has_gpus_ =
        static_cast<int>(torch::cuda::device_count()) >= group_.local_size();
    device_ = at::Device(at::kCUDA, static_cast<c10::DeviceIndex>(
                                        has_gpus_ ? group_.local_rank() : 0));
  }

  void TearDown() override { tensor::nccl::enable(group_, false); }

  const comm::Group group_ =
      sheaf::test::world().split(0, sheaf::test::world().rank());
  bool has_gpus_ = false;
  at::Device device_ = at::kCPU;
};

TEST_F(Nccl, TwoRanksOnOneGpuAreNamed) {
  if (has_gpus_) GTEST_SKIP() << "a GPU for each rank";
  expect_throws<UsageError>(
      [&] { tensor::all_reduce(group_, torch::ones({4}, device_)).wait(); },
      {"use the same GPU"});
}

TEST_F(Nccl, Collectives) {
  if (!has_gpus_) GTEST_SKIP() << "fewer GPUs than ranks";
  const double ranks = group_.size();
  const double me = group_.rank();
  const auto mine = torch::full({5, 3}, me + 1, device_);
  const auto sum = mine.clone();
  tensor::all_reduce(group_, sum).wait();
  EXPECT_EQ(sum.max().item<double>(), ranks * (ranks + 1) / 2);
  const auto average = mine.clone();
  tensor::all_reduce(group_, average, {.op = comm::ReduceOp::kAvg}).wait();
  EXPECT_EQ(average.min().item<double>(), (ranks + 1) / 2);
  const auto all = torch::empty({group_.size(), 5, 3}, device_);
  tensor::all_gather(group_, mine, all).wait();
  for (int rank = 0; rank < group_.size(); ++rank)
    EXPECT_TRUE((all[rank] == rank + 1).all().item<bool>());
  const auto part = torch::empty({5, 3}, device_);
  tensor::reduce_scatter(group_, all, part).wait();
  EXPECT_TRUE((part == (me + 1) * ranks).all().item<bool>());
  const auto given = mine.clone();
  tensor::broadcast(group_, given, {.root = group_.size() - 1}).wait();
  EXPECT_TRUE((given == ranks).all().item<bool>());
}

TEST_F(Nccl, ShapesThatDifferAreAnError) {
  if (!has_gpus_ || group_.size() == 1) GTEST_SKIP() << "for ranks with GPUs";
  EXPECT_THROW(tensor::all_reduce(
                   group_, torch::ones({group_.rank() == 0 ? 2 : 3}, device_))
                   .wait(),
               MismatchError);
}

TEST_F(Nccl, DataParallelAverages) {
  if (!has_gpus_) GTEST_SKIP() << "fewer GPUs than ranks";
  auto net = std::make_shared<torch::nn::LinearImpl>(3, 2);
  DataParallel model(net, group_, {.device = device_});
  const auto data = torch::full({1, 3}, group_.rank() + 1.0);
  model.forward(data).sum().backward();
  const double average = (group_.size() + 1) / 2.0;
  EXPECT_TRUE(torch::allclose(net->weight.grad(),
                              torch::full({2, 3}, average, device_)));
}

}  // namespace
}  // namespace sheaf::parallel

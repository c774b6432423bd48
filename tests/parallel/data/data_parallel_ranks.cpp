#include <gtest/gtest.h>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/support/world.hpp"

// Ranks as processes: gradients go through real shared memory.
namespace sheaf::parallel {
namespace {

using namespace test;
using sheaf::test::world;

constexpr int kSteps = 20;
constexpr std::int64_t kBatch = 13;  // not divisible by any number of ranks

template <class Net, class Forward>
std::vector<at::Tensor> train(Net& net, int rank, int ranks, Forward forward) {
  torch::optim::SGD optimizer(net->parameters(), 0.1);
  for (int step = 0; step < kSteps; ++step) {
    const Examples mine =
        share_of(examples(step, kBatch, at::kDouble), rank, ranks);
    optimizer.zero_grad();
    (part_of_loss(forward(mine.data), mine, kBatch) * ranks).backward();
    optimizer.step();
  }
  return weights_of(*net);
}

template <class Net>
void compare(const std::function<Net()>& make, bool sync_norm,
             const DataParallelOptions& options) {
  torch::manual_seed(5);
  Net alone = make();
  alone->to(torch::kDouble);
  Net net = make();  // different initial weights; those of rank 0 are used
  net->to(torch::kDouble);
  if (world().rank() == 0) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      net->parameters()[i].copy_(alone->parameters()[i]);
  }
  if (sync_norm) use_sync_batch_norm(*net, world());
  DataParallel model(net, world(), options);
  const auto together =
      train(net, world().rank(), world().size(),
            [&](const at::Tensor& x) { return model.forward(x); });
  model.check_weights();
  if (sync_norm) use_local_batch_norm(*net);
  const auto expected = train(
      alone, 0, 1, [&](const at::Tensor& x) { return alone->forward(x); });
  EXPECT_LE(distance(together, expected), 1e-12);
}

TEST(DataParallelRanks, GiveTheWeightsOfOneProcess) {
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff}) {
    compare<Mlp>([] { return Mlp(); }, false,
                 {.first_bucket_mb = 1e-3, .overlap = overlap});
    compare<ConvNet>([] { return ConvNet(true); }, true,
                     {.broadcast_buffers = false, .overlap = overlap});
  }
}

TEST(DataParallelRanks, SubgroupsTrainApart) {
  const comm::Group half = world().split(world().rank() % 2);
  Mlp net;
  DataParallel model(net, half);
  const Examples mine = examples(world().rank() % 2, 4, at::kFloat);
  part_of_loss(model.forward(mine.data), mine, 4).backward();
  Mlp twin;
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      twin->parameters()[i].copy_(net->parameters()[i]);
  }
  part_of_loss(twin->forward(mine.data), mine, 4).backward();
  for (std::size_t i = 0; i < net->parameters().size(); ++i)
    EXPECT_TRUE(torch::allclose(net->parameters()[i].grad(),
                                twin->parameters()[i].grad(), 1e-5, 1e-7));
}

// User operations on another group may run at any time.
TEST(DataParallelRanks, OtherOperationsMayRunMeanwhile) {
  Mlp net;
  DataParallel model(
      net, world(),
      {.bucket_mb = 1e-3, .first_bucket_mb = 1e-4, .overlap = Overlap::kOn});
  for (int step = 0; step < 10; ++step) {
    forget_gradients(*net);
    const Examples mine = examples(step + world().rank(), 4, at::kFloat);
    const at::Tensor loss = part_of_loss(model.forward(mine.data), mine, 4);
    loss.register_hook([](const at::Tensor& gradient) {
      std::vector<double> ones(1000, 1.0);
      comm::all_reduce(world(), ones).wait();
      EXPECT_EQ(ones[999], world().size());
      return gradient;
    });
    loss.backward();
  }
  model.check_weights();
}

// A GPU's thread releases a backward() that threw slightly later than the
// exception is seen.
TEST(DataParallelRanks, ABackwardThatThrowsMayBeTriedAgainAtOnce) {
  const at::Device device(torch::cuda::is_available() ? "cuda" : "cpu");
  Mlp net;
  net->to(device);
  DataParallel model(net, world());
  bool throws = false;
  const at::Tensor x = examples(0, 4, at::kFloat).data.to(device);
  for (int attempt = 0; attempt < 100; ++attempt) {
    const at::Tensor y = model.forward(x);
    y.register_hook([&](const at::Tensor& gradient) {
      if (throws) throw std::runtime_error("a user's error");
      return gradient;
    });
    const at::Tensor loss = y.square().mean();
    throws = true;
    EXPECT_THROW(loss.backward({}, /*retain_graph=*/true), std::runtime_error);
    throws = false;
    forget_gradients(*net);
    loss.backward();
    for (const at::Tensor& one : net->parameters())
      ASSERT_TRUE(one.grad().defined()) << "attempt " << attempt;
  }
  if (world().size() > 1) EXPECT_EQ(model.stats().passes, 100);
}

}  // namespace
}  // namespace sheaf::parallel

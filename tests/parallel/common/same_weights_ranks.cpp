// Compares ranks with a single process: after 50 steps of plain SGD on the same
// global batches, the weights are equal up to rounding. Covers every network,
// in both precisions, with every training mode.
//
// A global batch is an interval of rows. Ranks take parts of it that differ by
// at most one row; the single process takes the rows of all ranks.
//
// In f32 this can hold only while no branch depends on rounding: a ReLU whose
// input is within rounding of 0 may be on or off, and from then on the weights
// differ by 1e-3 and more, even in a single process that takes its rows in
// another order. Therefore the initial weights of the networks with ReLU are
// chosen such that no input of a dense layer's ReLU comes within 5e-6 of 0 in
// 50 plain steps, and the network with BatchNorm, where some always do, uses
// tanh. A layer before BatchNorm has no bias, because its gradient would
// consist of rounding errors.

#include <gtest/gtest.h>

#include <iostream>

#include "sheaf/nn/network.hpp"
#include "sheaf/parallel/common/sync_batch_norm.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/support/world.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
using sheaf::test::world;

constexpr int kStepsOfAll = 50;
// Not divisible by any number of ranks.
constexpr std::int64_t kBatchOfAll = 17;
constexpr std::int64_t kSide = 28;
constexpr std::int64_t kClasses = 10;
constexpr int kPieces = 2;  // pieces of a batch, with accumulation
// Fewer steps than the next rank, for uneven ranks.
constexpr int kStepsFewerEach = 9;
constexpr double kRate = 0.05;

enum class Way { kPlain, kAccumulation, kUnused, kUneven, kUnevenByActive };
using Case = std::tuple<const char*, at::ScalarType, Way>;

struct Rows {
  std::int64_t begin = 0;
  std::int64_t end = kBatchOfAll;
  std::int64_t size() const { return end - begin; }
  Rows part(int i, int n) const {
    return {begin + size() * i / n, begin + size() * (i + 1) / n};
  }
};

// Rows below a limit, which changes with each step, also take one of two
// branches: in some steps no rank has such rows, in some only the first rank.
struct BranchedImpl : torch::nn::Module {
  BranchedImpl(std::shared_ptr<nn::Network> wrapped, bool has_branches)
      : net(register_module("net", std::move(wrapped))) {
    for (int i = 0; has_branches && i < 2; ++i)
      branches.push_back(
          register_module("branch" + std::to_string(i),
                          torch::nn::Linear(kSide * kSide, kClasses)));
  }
  at::Tensor forward(const at::Tensor& x, int step, std::int64_t first_row) {
    const at::Tensor y = net->forward(x);
    if (branches.empty()) return y;
    const std::int64_t limit = step * 5 % (kBatchOfAll + 1);
    const std::int64_t taken =
        std::clamp<std::int64_t>(limit - first_row, 0, x.size(0));
    if (taken == 0) return y;
    auto& branch = branches[static_cast<std::size_t>(step % 2)];
    const at::Tensor more = branch(x.slice(0, 0, taken).flatten(1));
    return torch::cat({y.slice(0, 0, taken) + more, y.slice(0, taken)});
  }
  std::shared_ptr<nn::Network> net;
  std::vector<torch::nn::Linear> branches;
};
TORCH_MODULE(Branched);

nn::NetworkSpec spec_of(const std::string& name) {
  if (name == "lenet") return {name, {}, {}};
  if (name == "mlp") return {name, {{"sizes", "784-64-32-10"}}, {}};
  if (name == "smooth")
    return {"mlp", {{"sizes", "784-64-32-10"}, {"activation", "tanh"}}, {}};
  return {"",
          {{"input", "1x28x28"}},
          {{"conv2d",
            {{"out_channels", "4"},
             {"kernel", "5"},
             {"stride", "2"},
             {"bias", "false"}}},
           {"batchnorm", {}},
           {"tanh", {}},
           {"flatten", {}},
           {"linear", {{"out_features", "20"}, {"bias", "false"}}},
           {"batchnorm", {}},
           {"tanh", {}},
           {"linear", {{"out_features", "10"}}}}};
}

// In f32, sums in another order sometimes move a value near 0 across the edge
// of a ReLU, which is not an error. Networks with edges are therefore compared
// in f64, where this needs a value below 1e-15, and smooth networks in both
// types.
constexpr int kStarts[] = {2, 3};

std::vector<Examples> make_batches() {
  std::vector<Examples> batches;
  for (int step = 0; step < kStepsOfAll; ++step) {
    auto generator = at::detail::createCPUGenerator(1000 + step);
    const at::Tensor data =
        at::randn({kBatchOfAll, 1, kSide, kSide}, generator, at::kDouble);
    batches.push_back({data, at::randint(kClasses, {kBatchOfAll}, generator,
                                         at::TensorOptions(at::kLong))});
  }
  return batches;
}

Examples images(int step, Rows rows, at::ScalarType type) {
  static const std::vector<Examples> batches = make_batches();
  const auto& [data, target] = batches[static_cast<std::size_t>(step)];
  return {data.slice(0, rows.begin, rows.end).to(type),
          target.slice(0, rows.begin, rows.end)};
}

class SameWeights : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    std::tie(name_, type_, way_) = GetParam();
    torch::set_num_threads(1);
  }

  bool has_norm() const { return std::string(name_) == "norm"; }
  bool is_uneven() const {
    return way_ == Way::kUneven || way_ == Way::kUnevenByActive;
  }
  int pieces() const { return way_ == Way::kAccumulation ? kPieces : 1; }
  // The last rank has the most steps, so that its weights are kept.
  bool has_rows(int rank, int step) const {
    const int fewer = kStepsFewerEach * (world().size() - 1 - rank);
    return !is_uneven() || step < kStepsOfAll - fewer;
  }

  Branched make_net(int seed) const {
    torch::manual_seed(static_cast<std::uint64_t>(seed));
    Branched net(nn::make_network(spec_of(name_)), way_ == Way::kUnused);
    net->to(type_);
    return net;
  }

  // `weight` is the weight of one row.
  template <class Model>
  void learn(Model& model, int step, Rows rows, double weight) const {
    const Examples some = images(step, rows, type_);
    const at::Tensor output = model.forward(some.data, step, rows.begin);
    (part_of_loss(output, some, kBatchOfAll) * weight).backward();
  }

  std::vector<at::Tensor> train_together(int start) const;
  void learn_share(DataParallel<BranchedImpl>& model, int step) const;
  std::vector<at::Tensor> train_alone(int start) const;
  void learn_all(BranchedImpl& net, int step) const;

  const char* name_ = "";
  at::ScalarType type_ = at::kDouble;
  Way way_ = Way::kPlain;
};

std::vector<at::Tensor> SameWeights::train_together(int start) const {
  // Ranks start with different weights; those of rank 0 are used.
  Branched net = make_net(start + world().rank());
  if (has_norm()) use_sync_batch_norm(*net, world());
  DataParallel model(net, world(),
                     {.first_bucket_mb = 0.01,
                      .broadcast_buffers = !has_norm(),
                      .find_unused_parameters = way_ == Way::kUnused});
  torch::optim::SGD optimizer(net->parameters(), kRate);
  // Ranks that have finished do not normalize: with SyncBatchNorm, ranks
  // without data continue with no rows instead of join().
  std::optional<DataParallelCore::Join> join;
  if (is_uneven() && !has_norm())
    join.emplace(model, JoinOptions{way_ == Way::kUnevenByActive});
  for (int step = 0; step < kStepsOfAll; ++step) {
    if (join && !has_rows(world().rank(), step)) break;
    optimizer.zero_grad();
    learn_share(model, step);
    optimizer.step();
  }
  if (join) join->finish();
  model.check_weights();
  if (has_norm()) use_local_batch_norm(*net);
  return weights_of(*net);
}

void SameWeights::learn_share(DataParallel<BranchedImpl>& model,
                              int step) const {
  const int ranks = world().size();
  for (int i = 0; i < pieces(); ++i) {
    std::optional<Strategy::NoSync> guard;
    if (i + 1 < pieces()) guard.emplace(model);
    Rows rows = Rows().part(i, pieces()).part(world().rank(), ranks);
    if (!has_rows(world().rank(), step)) rows.end = rows.begin;
    learn(model, step, rows, ranks);
  }
}

std::vector<at::Tensor> SameWeights::train_alone(int seed) const {
  Branched net = make_net(seed);
  const auto start = weights_of(*net);
  torch::optim::SGD optimizer(net->parameters(), kRate);
  for (int step = 0; step < kStepsOfAll; ++step) {
    optimizer.zero_grad();
    learn_all(*net, step);
    optimizer.step();
  }
  EXPECT_GT(distance(weights_of(*net), start), 0.1) << "it learns nothing";
  return weights_of(*net);
}

// In pieces only if they determine which rows are normalized together.
void SameWeights::learn_all(BranchedImpl& net, int step) const {
  const int ranks = world().size();
  int first = 0;
  while (!has_rows(first, step)) ++first;
  const bool is_by_active = way_ == Way::kUnevenByActive && !has_norm();
  const double weight =
      is_by_active ? static_cast<double>(ranks) / (ranks - first) : 1;
  const int count = has_norm() ? pieces() : 1;
  for (int i = 0; i < count; ++i) {
    const Rows piece = Rows().part(i, count);
    learn(net, step, {piece.part(first, ranks).begin, piece.end}, weight);
  }
}

TEST_P(SameWeights, AsOneProcess) {
  for (const int start : kStarts) {
    // Also checks that the bits agree.
    const auto together = train_together(start);
    if (world().rank() != 0) continue;
    const double difference = distance(together, train_alone(start));
    std::cout << "largest difference, relative to the largest weight of its "
                 "tensor: "
              << difference << "\n";
    EXPECT_LE(difference, type_ == at::kDouble ? 1e-12 : 1e-5) << start;
  }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  const auto& [net, type, way] = info.param;
  constexpr const char* kWays[] = {"plain", "accumulation", "unused", "uneven",
                                   "uneven_by_active"};
  return std::string(net) + (type == at::kDouble ? "_f64_" : "_f32_") +
         kWays[static_cast<int>(way)];
}

INSTANTIATE_TEST_SUITE_P(
    Ranks, SameWeights,
    testing::Combine(testing::Values("mlp", "lenet"),
                     testing::Values(at::kDouble),
                     testing::Values(Way::kPlain, Way::kAccumulation,
                                     Way::kUnused, Way::kUneven,
                                     Way::kUnevenByActive)),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    Smooth, SameWeights,
    testing::Combine(testing::Values("smooth"), testing::Values(at::kFloat),
                     testing::Values(Way::kPlain, Way::kAccumulation,
                                     Way::kUnused, Way::kUneven,
                                     Way::kUnevenByActive)),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    SyncBatchNorm, SameWeights,
    testing::Combine(testing::Values("norm"),
                     testing::Values(at::kDouble, at::kFloat),
                     testing::Values(Way::kPlain, Way::kAccumulation,
                                     Way::kUnused, Way::kUneven)),
    case_name);

}  // namespace
}  // namespace sheaf::parallel

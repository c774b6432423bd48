#pragma once
// A small network under each strategy, and the results of a single process.

#include <gtest/gtest.h>

#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "tests/parallel/common/training.hpp"

namespace sheaf::parallel::test {

using comm::Group;
using comm::run_threads;

struct ChainImpl : torch::nn::Module {
  ChainImpl() {
    a = register_module("a", torch::nn::Linear(3, 4));
    b = register_module("b", torch::nn::Linear(4, 2));
    const torch::NoGradGuard no_grad;
    for (at::Tensor& one : parameters()) one.fill_(0.5);
  }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor hidden = a(x);
    if (on_hidden) hidden = on_hidden(hidden);
    kept = torch::relu(hidden);
    return b(kept);
  }
  torch::nn::Linear a{nullptr}, b{nullptr};
  std::function<at::Tensor(at::Tensor)> on_hidden;
  at::Tensor kept;
};
TORCH_MODULE(Chain);

// Runs the same test for each strategy: `body` gets a model and its module.
template <class Body>
void with_each_strategy(int ranks, Body body,
                        double parcel_bytes = plan::kParcelBytes,
                        const std::vector<Overlap>& overlaps = {
                            Overlap::kOn, Overlap::kOff}) {
  for (const Overlap overlap : overlaps) {
    run_threads(ranks, [&](const Group& group) {
      Chain net;
      DataParallel model(net, group,
                         {.first_bucket_mb = 1e-5, .overlap = overlap});
      SCOPED_TRACE("data");
      body(model, net, group);
    });
    for (const DadMode mode : {DadMode::kDad, DadMode::kEdad})
      run_threads(ranks, [&](const Group& group) {
        Chain net;
        net->to(torch::kDouble);
        DadParallel model(net, group,
                          {.mode = mode,
                           .link = LinkModel{.ranks = ranks},
                           .parcel_bytes = parcel_bytes,
                           .overlap = overlap});
        SCOPED_TRACE(mode == DadMode::kDad ? "dad" : "edad");
        body(model, net, group);
      });
  }
}

inline at::Tensor input_for(const Group& group, at::ScalarType type) {
  return torch::full({2, 3}, group.rank() + 1.0, type);
}

// The result of a single process with the mean of all ranks' gradients.
inline std::vector<at::Tensor> gradients_alone(
    const Chain& like, int ranks,
    const std::function<at::Tensor(ChainImpl&, const at::Tensor&)>& loss_of) {
  Chain net;
  const auto type = like->a->weight.scalar_type();
  net->to(type);
  net->on_hidden = like->on_hidden;
  {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < net->parameters().size(); ++i)
      net->parameters()[i].copy_(like->parameters()[i]);
  }
  for (int rank = 0; rank < ranks; ++rank) {
    const at::Tensor x = torch::full({2, 3}, rank + 1.0, type);
    (loss_of(*net, x) / ranks).backward();
  }
  std::vector<at::Tensor> list;
  for (const at::Tensor& one : net->parameters()) list.push_back(one.grad());
  return list;
}

inline at::Tensor plain_loss(ChainImpl& net, const at::Tensor& x) {
  return net.forward(x).square().mean();
}

inline void expect_gradients(const Chain& net,
                             const std::vector<at::Tensor>& want) {
  const auto parameters = net->named_parameters();
  ASSERT_EQ(parameters.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const at::Tensor& got = parameters[i].value().grad();
    const std::string& name = parameters[i].key();
    ASSERT_EQ(got.defined(), want[i].defined()) << name;
    if (!got.defined()) continue;
    // Tolerance for sums of few terms in another order.
    const double rounding = got.scalar_type() == at::kDouble ? 1e-13 : 1e-5;
    EXPECT_TRUE(torch::allclose(got, want[i], rounding, 0)) << name << '\n'
                                                            << got << '\n'
                                                            << want[i];
  }
}

// One rank's program without any exchange.
struct Alone {
  Chain net;
  at::Tensor forward(const at::Tensor& x) { return net->forward(x); }
  int no_sync() { return 0; }
};

inline at::Tensor rows_of(int rank, double scale, at::ScalarType type) {
  return torch::arange(6, torch::kDouble)
      .view({2, 3})
      .mul(0.1 * scale)
      .add(rank + 0.3)
      .to(type);
}

// Runs body(model, net, input), where input(scale) returns the rows of the
// rank.
template <class Body>
void expect_as_alone(Body body) {
  with_each_strategy(2, [&](auto& model, Chain& net, const Group& group) {
    const auto type = net->a->weight.scalar_type();
    std::vector<at::Tensor> want;
    for (int rank = 0; rank < 2; ++rank) {
      Chain one;
      one->to(type);
      Alone alone{one};
      body(alone, one,
           [&](double scale) { return rows_of(rank, scale, type); });
      want.resize(one->parameters().size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        const at::Tensor half = one->parameters()[i].grad() / 2;
        want[i] = want[i].defined() ? want[i] + half : half;
      }
    }
    body(model, net,
         [&](double scale) { return rows_of(group.rank(), scale, type); });
    expect_gradients(net, want);
  });
}

template <class Model, class Input>
at::Tensor loss_of(Model& model, const Input& input, double scale) {
  return model.forward(input(scale)).square().mean();
}

template <class Model, class Input>
void first_step(Model& model, Chain& net, const Input& input) {
  loss_of(model, input, 1).backward();
  forget_gradients(*net);
}

}  // namespace sheaf::parallel::test

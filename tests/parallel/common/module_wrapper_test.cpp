#include "sheaf/parallel/common/module_wrapper.hpp"

#include <gtest/gtest.h>

#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/parallel/data/common_options.hpp"
#include "tests/parallel/common/training.hpp"

namespace sheaf::parallel {
namespace {

using test::Mlp;

template <class Model>
void expect_members(Mlp net, Model& model) {
  const at::Tensor x = torch::ones({2, 12});
  EXPECT_TRUE(model(x).equal(net->forward(x)));
  EXPECT_TRUE(model.forward(x).equal(net->forward(x)));
  EXPECT_EQ(model.module(), net.ptr());
  EXPECT_EQ(&*model, net.get());
  EXPECT_EQ(model->first.get(), net->first.get());
  EXPECT_EQ(model.parameters().size(), 6u);
  EXPECT_TRUE(model.named_parameters().contains("first.weight"));
  model.eval();
  EXPECT_FALSE(net->is_training());
  EXPECT_FALSE(model.is_training());
  model.train();
  EXPECT_TRUE(net->is_training());
}

TEST(ModuleWrapper, WrappersHaveTheSameMembers) {
  comm::run_threads(1, [](const comm::Group& group) {
    Mlp net;
    DataParallel data(net, group);
    expect_members(net, data);
    DadParallel dad(net.ptr(), group);
    expect_members(net, dad);
  });
}

struct TakesAll : torch::nn::Module {
  explicit TakesAll(at::Device device = at::kCPU) {
    scale = register_parameter("scale", torch::ones({1}, device));
  }
  at::Tensor forward(const at::Tensor& x, const std::vector<at::Tensor>& more,
                     const std::string& text, at::Tensor& out) {
    devices = {x.device(), more[0].device(), out.device()};
    out = x * 2;
    return x * scale * static_cast<double>(text.size()) + more[0];
  }
  at::Tensor scale;
  std::vector<at::Device> devices;
};

// Exchanges nothing. The device meta has no data, but shows where tensors were
// moved.
class CoreOnMeta {
 public:
  struct Options {};
  CoreOnMeta(const std::shared_ptr<torch::nn::Module>&, const comm::Group&,
             Options) {}

 protected:
  static std::optional<at::Device> device() { return at::kMeta; }
  template <class Call, class... Args>
  auto run(const Call& call, Args&&... args) {
    return call(std::forward<Args>(args)...);
  }
};

TEST(ModuleWrapper, TheDeviceAppliesToArguments) {
  comm::run_threads(1, [](const comm::Group& group) {
    auto net = std::make_shared<TakesAll>(at::kMeta);
    ModuleWrapper<TakesAll, CoreOnMeta> model(net, group);
    at::Tensor out = torch::ones({2});
    model(torch::ones({2}), std::vector{torch::ones({2})}, "two", out);
    EXPECT_EQ(net->devices, std::vector(3, at::Device(at::kMeta)));
  });
}

TEST(ModuleWrapper, ArgumentsByReferenceAreTheCallers) {
  comm::run_threads(1, [](const comm::Group& group) {
    DataParallel model(std::make_shared<TakesAll>(), group);
    at::Tensor out;
    const std::vector<at::Tensor> more{torch::ones({2})};
    out = torch::zeros({2});
    model(torch::ones({2}), more, "x", out);
    EXPECT_TRUE(out.equal(torch::full({2}, 2.)));
  });
}

// Parameters in `kept` are trained by each rank alone.
TEST(ModuleWrapper, KeptParametersAreNotExchanged) {
  comm::run_threads(2, [](const comm::Group& group) {
    auto net = std::make_shared<test::MlpImpl>();
    DadParallel model(net, group, {.kept = {net->last->bias}});
    const at::Tensor x = torch::full({3, 12}, 1. + group.rank());
    (model(x).sum() * (1. + group.rank())).backward();
    EXPECT_TRUE(net->last->bias.grad().equal(
        torch::full({4}, 3. * (1. + group.rank()))));
    torch::NoGradGuard guard;
    net->last->bias.fill_(group.rank());
    model.check_weights();
  });
}

TEST(ModuleWrapper, DadWithStaticGraphAllowsUnusedParameters) {
  comm::run_threads(2, [](const comm::Group& group) {
    struct Half : torch::nn::Module {
      Half() {
        used = register_module("used", torch::nn::Linear(2, 1));
        unused = register_module("unused", torch::nn::Linear(2, 1));
      }
      at::Tensor forward(const at::Tensor& x) { return used(x); }
      torch::nn::Linear used{nullptr}, unused{nullptr};
    };
    auto net = std::make_shared<Half>();
    DadParallel model(net, group, {.static_graph = true});
    for (int step = 0; step < 3; ++step)
      model(torch::ones({2, 2})).sum().backward();
    EXPECT_FALSE(net->unused->weight.grad().defined());
    EXPECT_TRUE(net->used->weight.grad().defined());
  });
}

}  // namespace
}  // namespace sheaf::parallel

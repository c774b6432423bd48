// Measures the cost per step of the checks of a wrapped module, and the time of
// a step without them:
//   build/bench/train_checks --network lenet --rows 64
// Prints one JSON object. `module_ns` is the time to compare the module with
// its wrapped parameters and buffers before and after each forward(), and to
// check that no other wrapper trains the parameters; `pass_ns` is the time of
// all hooks of a pass: sharing of each gradient's memory, its beginning and its
// end. Both are upper bounds on the cost of the checks, because some hooks are
// needed without them.

#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "sheaf/base/stopwatch.hpp"
#include "sheaf/nn/network.hpp"
#include "sheaf/parallel/common/backward_pass.hpp"
#include "sheaf/parallel/common/buffers.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/common/wrapped_parameters.hpp"

namespace {

using sheaf::Stopwatch;
using namespace sheaf::parallel;

double median_ns(int repetitions, const std::function<void()>& action) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    const Stopwatch watch;
    action();
    times.push_back(1e6 * watch.ms());
  }
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  return times[static_cast<std::size_t>(repetitions) / 2];
}

struct NoExchange : GradientSink {
  void begin_pass(std::optional<std::size_t>) override {}
  void add(const NewGradient&) override {}
  void add_local(const NewGradient&) override {}
  void finalize() override {}
  void discard() noexcept override {}
};

// A backward() that gives each parameter a gradient with almost no computation.
void touch(const std::vector<at::Tensor>& parameters) {
  at::Tensor sum = torch::zeros({1});
  for (const at::Tensor& one : parameters) sum = sum + one;
  sum.backward();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measure the cost of the checks of a wrapped module");
  std::string network = "lenet";
  int rows = 64, side = 28, channels = 1;
  app.add_option("--network", network);
  app.add_option("--rows", rows);
  app.add_option("--side", side, "Side of the square images");
  app.add_option("--channels", channels);
  CLI11_PARSE(app, argc, argv);
  at::set_num_threads(1);
  const auto net = sheaf::nn::make_network({network});
  const at::Tensor x = torch::randn({rows, channels, side, side});
  const double step_ns = median_ns(30, [&] {
    net->zero_grad();
    net->forward(x).square().mean().backward();
  });
  const WrappedParameters wrapped(*net);
  ModuleBuffers buffers(*net);
  ParameterClaim claim;
  std::vector<TrainedParameter> trained;
  for (const auto& entry : net->named_parameters())
    trained.push_back({entry.key(), entry.value(), false});
  claim.set(trained);
  const double module_ns = median_ns(2000, [&] {
    if (wrapped.find_change(*net)) std::abort();
    claim.check();
    buffers.begin_forward();
    buffers.end_forward();
  });
  std::vector<at::Tensor> parameters;
  for (std::size_t i = 0; i < net->parameters().size(); ++i)
    parameters.push_back(torch::ones({1}).set_requires_grad(true));
  NoExchange sink;
  BackwardPass pass;
  std::vector<BackwardPass::Connection> connections;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    connections.push_back({parameters[i], &sink, i});
  // Interleaved: the speed of a shared machine changes within seconds.
  std::vector<double> differences;
  for (int round = 0; round < 41; ++round) {
    const double without_ns = median_ns(200, [&] { touch(parameters); });
    pass.connect({&sink}, connections);
    const double with_ns = median_ns(200, [&] { touch(parameters); });
    pass.disconnect();
    differences.push_back(with_ns - without_ns);
  }
  std::sort(differences.begin(), differences.end());
  const double pass_ns = differences[differences.size() / 2];
  fmt::print(
      "{{\"network\": \"{}\", \"rows\": {}, \"parameters\": {}, "
      "\"step_ns\": {:.0f}, \"module_ns\": {:.0f}, \"pass_ns\": {:.0f}, "
      "\"share\": {:.5f}}}\n",
      network, rows, parameters.size(), step_ns, module_ns, pass_ns,
      (module_ns + pass_ns) / step_ns);
}

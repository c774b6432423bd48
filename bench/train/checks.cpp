// What the checks of a wrapped module cost in each step, beside the time of a
// step without them:
//   build/bench/train_checks --network lenet --rows 64
// Prints one JSON object. `module_ns` is the comparison of the module with its
// wrapped parameters before each forward(); `pass_ns` all hooks of a pass: who
// else reads each gradient's memory, its beginning and its end. Both are upper
// bounds of what the checks add, for hooks are needed without them, too.

#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "sheaf/base/stopwatch.hpp"
#include "sheaf/nn/network.hpp"
#include "sheaf/parallel/common/backward_pass.hpp"
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
  void begin_pass() override {}
  void add(const NewGradient&) override {}
  void add_local(const NewGradient&) override {}
  void finalize() override {}
  void discard() noexcept override {}
};

// A backward() that gives each parameter a gradient and computes next to
// nothing.
void touch(const std::vector<at::Tensor>& parameters) {
  at::Tensor sum = torch::zeros({1});
  for (const at::Tensor& one : parameters) sum = sum + one;
  sum.backward();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Costs of the checks of a wrapped module");
  std::string network = "lenet";
  int rows = 64, side = 28, channels = 1;
  app.add_option("--network", network);
  app.add_option("--rows", rows);
  app.add_option("--side", side, "of the square images");
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
  const double module_ns = median_ns(2000, [&] {
    if (wrapped.find_change(*net)) std::abort();
  });
  std::vector<at::Tensor> parameters;
  for (std::size_t i = 0; i < net->parameters().size(); ++i)
    parameters.push_back(torch::ones({1}).set_requires_grad(true));
  const double without_ns = median_ns(500, [&] { touch(parameters); });
  NoExchange sink;
  BackwardPass pass;
  std::vector<BackwardPass::Connection> connections;
  for (std::size_t i = 0; i < parameters.size(); ++i)
    connections.push_back({parameters[i], &sink, i});
  pass.connect({&sink}, std::move(connections));
  const double with_ns = median_ns(500, [&] { touch(parameters); });
  const double pass_ns = with_ns - without_ns;
  fmt::print(
      "{{\"network\": \"{}\", \"rows\": {}, \"parameters\": {}, "
      "\"step_ns\": {:.0f}, \"module_ns\": {:.0f}, \"pass_ns\": {:.0f}, "
      "\"share\": {:.5f}}}\n",
      network, rows, parameters.size(), step_ns, module_ns, pass_ns,
      (module_ns + pass_ns) / step_ns);
}

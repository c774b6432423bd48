// Time and error of low-rank factors for all layers of an MLP, in one process:
//   build/bench/train_low_rank --rows 32 --rank 4
// Compares exact factors, with and without feedback, with the sequential power
// iteration of dad_torch (10 iterations), interleaved. The factors come from
// the last few training steps of a network, used in turn, so that feedback sees
// new rows. Errors are relative to the truncated SVD; with feedback, the error
// is the part that is neither sent nor kept, relative to its minimum.

#include "sheaf/parallel/matrix/low_rank.hpp"

#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

namespace {

using sheaf::parallel::Factors;
using Clock = std::chrono::steady_clock;

// The factors of all layers, for each of the last steps.
std::vector<std::vector<Factors>> factors_of_training(
    const std::vector<int>& sizes, int rows) {
  torch::manual_seed(1);
  std::vector<torch::nn::Linear> layers;
  std::vector<at::Tensor> parameters;
  for (std::size_t i = 1; i < sizes.size(); ++i) {
    layers.emplace_back(sizes[i - 1], sizes[i]);
    for (const auto& one : layers.back()->parameters())
      parameters.push_back(one);
  }
  torch::optim::SGD optimizer(parameters, 0.05);
  const auto centres = torch::randn({sizes.back(), sizes.front()});
  std::vector<std::vector<Factors>> steps;
  for (int step = 0; step < 30; ++step) {
    const auto target = torch::randint(sizes.back(), {rows}, at::kLong);
    at::Tensor x =
        centres.index_select(0, target) + torch::randn({rows, sizes.front()});
    std::vector<at::Tensor> inputs, outputs;
    for (std::size_t i = 0; i < layers.size(); ++i) {
      inputs.push_back(x.detach());
      outputs.push_back(layers[i](x));
      outputs.back().retain_grad();
      x = i + 1 < layers.size() ? torch::relu(outputs.back()) : outputs.back();
    }
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(x, target).backward();
    std::vector<Factors> factors;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      factors.push_back({inputs[i], outputs[i].grad().clone()});
    optimizer.step();
    if (step >= 22) steps.push_back(factors);
  }
  return steps;
}

at::Tensor product(const Factors& f) {
  return f.deltas.to(at::kDouble).t().mm(f.inputs.to(at::kDouble));
}

double norm_over_svd(const at::Tensor& error, const at::Tensor& exact,
                     std::int64_t rank) {
  return error.norm().item<double>() /
         at::linalg_svdvals(exact).slice(0, rank).norm().item<double>();
}

// The part of one step that feedback has lost, relative to its minimum.
double loss_of_feedback(const Factors& given, int rank, Factors rest) {
  at::Tensor left = product(given);
  if (rest.inputs.defined()) left += product(rest);
  left -= product(sheaf::parallel::low_rank(given, {.rank = rank}, &rest));
  return norm_over_svd(left - product(rest), left, rest.inputs.size(0));
}

}  // namespace

int main(int argc, char** argv) {
  int rows = 32;
  int rank = 4;
  int rounds = 20;
  int feedback = 16;
  std::vector<int> sizes{784, 2048, 1024, 512, 256, 10};
  CLI::App app("Measure the time and error of low-rank factors of an MLP");
  app.add_option("--rows", rows);
  app.add_option("--rank", rank);
  app.add_option("--rounds", rounds);
  app.add_option("--feedback", feedback, "Number of rows to keep");
  app.add_option("--sizes", sizes)->delimiter(',');
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(1);
  const auto steps = factors_of_training(sizes, rows);
  std::vector<Factors> all = steps.back();
  std::vector<Factors> rests(all.size());
  const std::vector<std::pair<std::string, std::function<Factors(std::size_t)>>>
      ways{{"exact",
            [&](std::size_t i) {
              return sheaf::parallel::low_rank(all[i], {.rank = rank}, nullptr);
            }},
           {"feedback",
            [&](std::size_t i) {
              return sheaf::parallel::low_rank(
                  all[i], {.rank = rank, .feedback_rows = feedback}, &rests[i]);
            }},
           {"power", [&](std::size_t i) {
              return sheaf::parallel::power_iteration(all[i], rank, 10, 0, 1);
            }}};
  std::vector<std::vector<double>> times(ways.size());
  for (int round = 0; round < rounds + 8; ++round) {
    all = steps[static_cast<std::size_t>(round) % steps.size()];
    for (std::size_t w = 0; w < ways.size(); ++w) {
      const auto start = Clock::now();
      for (std::size_t i = 0; i < all.size(); ++i) ways[w].second(i);
      times[w].push_back(
          std::chrono::duration<double, std::milli>(Clock::now() - start)
              .count());
    }
  }
  for (std::size_t w = 0; w < ways.size(); ++w) {
    std::sort(times[w].begin(), times[w].end());
    std::string errors;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const auto exact = product(all[i]);
      const double error =
          w == 1
              ? loss_of_feedback(all[i], rank, rests[i])
              : norm_over_svd(exact - product(ways[w].second(i)), exact, rank);
      errors += fmt::format("{}{:.4f}", i ? ", " : "", error);
    }
    fmt::print(
        "{{\"way\": \"{}\", \"rows\": {}, \"rank\": {}, \"ms\": {:.3f}, "
        "\"best_ms\": {:.3f}, \"error_over_svd\": [{}]}}\n",
        ways[w].first, rows, rank, times[w][times[w].size() / 2], times[w][0],
        errors);
  }
}

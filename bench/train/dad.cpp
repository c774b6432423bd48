// Time of a training step of an MLP with each exchange mode, interleaved:
//   sheaf run -n 2 -- build/bench/train_dad --rows 32 --modes data,dad,auto
//   scripts/testbed run --hosts 2 --per-host 1 --rate 100mbit --
//     build/bench/train_dad --rows 32 --rounds 3
// Rank 0 prints one JSON object for each mode; times are medians in ms.

#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "sheaf/base/stopwatch.hpp"
#include "sheaf/sheaf.hpp"

namespace {

using sheaf::parallel::Where;

struct Options {
  int rows = 32;
  int rounds = 3;
  int steps = 5;
  int warmup = 5;
  int rank = 4;
  std::vector<int> sizes{784, 2048, 1024, 512, 256, 10};
  std::vector<std::string> modes{"alone", "data", "dad", "auto"};
  bool show = false;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Measure the time of a training step by exchange mode");
  app.add_option("--rows", options.rows, "Examples per rank");
  app.add_option("--rounds", options.rounds, "Rounds over all modes");
  app.add_option("--steps", options.steps,
                 "Steps per mode and round; the first is dropped");
  app.add_option("--warmup", options.warmup,
                 "Steps before the first round, or until auto's trials end");
  app.add_option("--rank", options.rank, "Rank of rank-dad");
  app.add_option("--sizes", options.sizes, "Widths of the MLP")->delimiter(',');
  app.add_option("--modes", options.modes,
                 "alone, data, dad, edad, zeros (dad without zeros), bf16, "
                 "star, rank-dad, power (10 iterations, as in dad_torch), "
                 "auto, any (auto that may choose low rank)")
      ->delimiter(',');
  app.add_flag("--show", options.show, "Print the route of each parameter");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

sheaf::DadOptions dad_options(const std::string& mode, int rank) {
  using sheaf::DadMode;
  sheaf::DadOptions options;
  options.rank = rank;
  if (mode == "edad") options.mode = DadMode::kEdad;
  if (mode == "rank-dad" || mode == "power") options.mode = DadMode::kRankDad;
  if (mode == "auto" || mode == "any") options.mode = DadMode::kAuto;
  options.allows_low_rank = mode == "any";
  options.power_iterations = mode == "power" ? 10 : 0;
  if (mode == "dad" || mode == "zeros" || mode == "star")
    options.skips_zeros = mode == "zeros";
  if (mode == "bf16") options.wire = at::kBFloat16;
  if (mode == "star") options.where = Where::kStar;
  return options;
}

class Contestant {
 public:
  Contestant(const std::string& mode, const Options& options,
             const sheaf::Group& world)
      : mode_(mode), options_(options) {
    int from = options.sizes[0];
    for (std::size_t i = 1; i < options.sizes.size(); ++i) {
      if (i > 1) net_->push_back(torch::nn::ReLU());
      net_->push_back(torch::nn::Linear(from, options.sizes[i]));
      from = options.sizes[i];
    }
    optimizer_.emplace(net_->parameters(), 0.01);
    if (mode == "data")
      strategy_ = std::make_unique<sheaf::parallel::DataParallelCore>(
          net_.ptr(), world, sheaf::DataParallelOptions{});
    else if (mode != "alone")
      strategy_ = std::make_unique<sheaf::parallel::DadParallelCore>(
          net_.ptr(), world, dad_options(mode, options.rank));
  }

  void step(const at::Tensor& data, const at::Tensor& target, bool counts) {
    if (strategy_) strategy_->reset_stats();
    const sheaf::Stopwatch watch;
    sheaf::forget_gradients(*net_);
    if (strategy_) strategy_->before_forward();
    at::Tensor output = net_->forward(data);
    if (strategy_) strategy_->after_forward({&output});
    torch::nn::functional::cross_entropy(output, target).backward();
    optimizer_->step();
    if (counts) times_.push_back(watch.ms());
  }

  bool is_trying() const {
    const auto* dad =
        dynamic_cast<sheaf::parallel::DadParallelCore*>(strategy_.get());
    return dad && dad->is_trying();
  }

  void print(double first_ms) const {
    const double middle = median();
    const double best = *std::min_element(times_.begin(), times_.end());
    const auto stats =
        strategy_ ? strategy_->stats() : sheaf::parallel::ExchangeStats{};
    fmt::print(
        "{{\"mode\": \"{}\", \"rows\": {}, \"step_ms\": {:.3f}, \"best_ms\": "
        "{:.3f}, \"faster_than_first\": {:.2f}, \"bytes\": {}, "
        "\"exchange_ms\": {:.2f}, \"wait_ms\": {:.2f}}}\n",
        mode_, options_.rows, middle, best, first_ms / middle, stats.bytes,
        stats.exchange_ms, stats.wait_ms);
    if (const auto* dad =
            dynamic_cast<sheaf::parallel::DadParallelCore*>(strategy_.get());
        dad && options_.show)
      fmt::print("{}", dad->describe_routes());
  }
  double median() const {
    auto times = times_;
    std::sort(times.begin(), times.end());
    return times[times.size() / 2];
  }

 private:
  std::string mode_;
  const Options& options_;
  torch::nn::Sequential net_;
  std::optional<torch::optim::SGD> optimizer_;
  std::unique_ptr<sheaf::parallel::Strategy> strategy_;
  std::vector<double> times_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto world = sheaf::init(argc, argv);
  const Options options = parse(argc, argv);
  torch::set_num_threads(1);
  sheaf::seed_rank(1, world);
  const auto data = torch::randn({options.rows, options.sizes.front()});
  const auto target = torch::randint(options.sizes.back(), {options.rows});
  std::vector<std::unique_ptr<Contestant>> all;
  for (const std::string& mode : options.modes)
    all.push_back(std::make_unique<Contestant>(mode, options, world));
  for (int round = 0; round <= options.rounds; ++round)
    for (const auto& one : all) {
      sheaf::barrier(world).wait();
      const int steps = round ? options.steps : options.warmup;
      for (int i = 0; i < steps || one->is_trying(); ++i)
        one->step(data, target, round > 0 && i > 0);
    }
  if (world.rank() != 0) return 0;
  for (const auto& one : all) one->print(all[0]->median());
}

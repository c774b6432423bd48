// Time of a training step of an MLP with and without exchange, interleaved, and
// of the exchange alone:
//   sheaf run -n 2 -- build/bench/train_step --rows 16
// Rank 0 prints one JSON object; times are medians in ms.

#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "sheaf/base/stopwatch.hpp"
#include "sheaf/sheaf.hpp"

namespace {

struct MlpImpl : torch::nn::Module {
  explicit MlpImpl(const std::vector<int>& sizes) {
    int from = sizes[0];
    for (const int to : std::vector(sizes.begin() + 1, sizes.end())) {
      layers.push_back(register_module(fmt::format("layer{}", layers.size()),
                                       torch::nn::Linear(from, to)));
      from = to;
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      x = layers[i](x);
      if (i + 1 < layers.size()) x = torch::relu(x);
    }
    return x;
  }
  std::vector<torch::nn::Linear> layers;
};
TORCH_MODULE(Mlp);

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Times {
  double step_ms = 0;
  double backward_ms = 0;  // the part in backward()
};

Times median(const std::vector<Times>& all) {
  std::vector<double> steps;
  std::vector<double> backwards;
  for (const Times& times : all) {
    steps.push_back(times.step_ms);
    backwards.push_back(times.backward_ms);
  }
  return {median(steps), median(backwards)};
}

class Trainer {
 public:
  explicit Trainer(const std::vector<int>& sizes)
      : net_(sizes), optimizer_(net_->parameters(), 0.01) {}

  template <class Forward>
  Times step(Forward forward, const at::Tensor& data, const at::Tensor& target,
             sheaf::TraceWriter* trace) {
    const sheaf::Stopwatch watch;
    const sheaf::TraceSpan step(trace, "step", "train");
    sheaf::forget_gradients(*net_);
    auto loss = torch::nn::functional::cross_entropy(forward(data), target);
    const sheaf::Stopwatch backward_watch;
    {
      const sheaf::TraceSpan backward(trace, "backward", "train");
      loss.backward();
    }
    const double backward_ms = backward_watch.ms();
    optimizer_.step();
    return {watch.ms(), backward_ms};
  }
  Mlp& net() { return net_; }

 private:
  Mlp net_;
  torch::optim::SGD optimizer_;
};

struct Options {
  int rows = 64;
  int rounds = 6;
  std::vector<int> sizes{784, 2048, 1024, 512, 256, 10};
  std::string overlap = "auto";
  double bucket_mb = 25;
  std::string trace;
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Measure the time of a training step");
  app.add_option("--rows", options.rows, "Examples per rank");
  app.add_option("--rounds", options.rounds, "Rounds of ten steps per mode");
  app.add_option("--sizes", options.sizes, "Widths of the MLP")->delimiter(',');
  app.add_option("--overlap", options.overlap)
      ->check(CLI::IsMember({"auto", "on", "off"}));
  app.add_option("--bucket-mb", options.bucket_mb);
  app.add_option("--trace", options.trace,
                 "Write a Chrome trace of steps and buckets; each rank adds "
                 "its number to the name");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

sheaf::parallel::Overlap overlap_of(const std::string& name) {
  using sheaf::parallel::Overlap;
  if (name == "on") return Overlap::kOn;
  return name == "off" ? Overlap::kOff : Overlap::kAuto;
}

// The exchange of all gradients at once, without overlapping computation.
double exchange_ms(const sheaf::Group& group, const Mlp& net, int count) {
  std::int64_t elements = 0;
  for (const auto& parameter : net->parameters()) elements += parameter.numel();
  const auto block = sheaf::empty_shared(group, {elements}).zero_();
  std::vector<double> times;
  for (int i = 0; i < count; ++i) {
    sheaf::barrier(group).wait();
    const sheaf::Stopwatch watch;
    sheaf::all_reduce(group, block, {.op = sheaf::ReduceOp::kAvg}).wait();
    times.push_back(watch.ms());
  }
  return median(times);
}

}  // namespace

int main(int argc, char** argv) {
  const auto world = sheaf::init(argc, argv);
  const Options options = parse(argc, argv);
  torch::set_num_threads(1);
  sheaf::seed_rank(1, world);
  const auto data = torch::randn({options.rows, options.sizes.front()});
  const auto target = torch::randint(options.sizes.back(), {options.rows});
  std::unique_ptr<sheaf::TraceWriter> trace;
  if (!options.trace.empty())
    trace = std::make_unique<sheaf::TraceWriter>(
        fmt::format("{}.{}", options.trace, world.rank()),
        sheaf::TraceOptions{.rank = world.rank()});
  Trainer alone(options.sizes);
  Trainer together(options.sizes);
  sheaf::DataParallel model(together.net(), world,
                            {.bucket_mb = options.bucket_mb,
                             .overlap = overlap_of(options.overlap),
                             .trace = trace.get()});
  std::vector<Times> without;
  std::vector<Times> with;
  constexpr int kBlock = 10;  // long enough to evict the other mode's data
  for (int round = 0; round < options.rounds; ++round) {
    for (int i = 0; i < kBlock; ++i) {
      const Times times =
          alone.step([&](const auto& x) { return alone.net()->forward(x); },
                     data, target, nullptr);
      if (i >= 2 && round > 0) without.push_back(times);
    }
    sheaf::barrier(world).wait();
    for (int i = 0; i < kBlock; ++i) {
      const Times times =
          together.step([&](const auto& x) { return model.forward(x); }, data,
                        target, trace.get());
      if (i >= 2 && round > 0) with.push_back(times);
    }
    sheaf::barrier(world).wait();
  }
  const double exchange = exchange_ms(world, alone.net(), 10);
  const auto stats = model.stats();
  const Times plain = median(without);
  const Times ours = median(with);
  if (world.rank() == 0)
    fmt::print(
        "{{\"rows\": {}, \"ranks\": {}, \"alone_ms\": {:.3f}, "
        "\"alone_backward_ms\": {:.3f}, \"exchange_ms\": {:.3f}, "
        "\"step_ms\": {:.3f}, \"backward_ms\": {:.3f}, \"over_alone\": "
        "{:.3f}, \"over_longer\": {:.3f}, \"backward_over_longer\": {:.3f}, "
        "\"wait_ms\": {:.3f}}}\n",
        options.rows, world.size(), plain.step_ms, plain.backward_ms, exchange,
        ours.step_ms, ours.backward_ms, ours.step_ms / plain.step_ms,
        ours.step_ms / std::max(plain.step_ms, exchange),
        ours.backward_ms / std::max(plain.backward_ms, exchange),
        stats.wait_ms / static_cast<double>(stats.passes));
}

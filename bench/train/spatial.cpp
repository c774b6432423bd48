// Time and memory of a training step on one large image, split over the ranks:
//   sheaf run -n 1 -- build/bench/train_spatial --grid 1x1
//   sheaf run -n 2 -- build/bench/train_spatial --grid 2x1
// Rank 0 prints one JSON object: medians in ms, the largest peak memory of any
// rank, and the data that rank 0 sends per step.

#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "sheaf/base/statistics.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/sheaf.hpp"

namespace {

struct Options {
  std::string grid = "1x1";
  int image = 1024;
  int channels = 16;
  int layers = 6;
  int batch = 1;
  int steps = 5;
  bool alone = false;
  bool keep_memory = false;
  std::string overlap = "auto";
};

Options parse(int argc, char** argv) {
  Options options;
  CLI::App app("Measure the time and memory of a step on one large image");
  app.add_option("--grid", options.grid, "Grid of ranks");
  app.add_option("--image", options.image, "Side of the image");
  app.add_option("--channels", options.channels, "Channels of each layer");
  app.add_option("--layers", options.layers, "Number of 3x3 convolutions");
  app.add_option("--batch", options.batch, "Images per batch");
  app.add_option("--steps", options.steps, "Steps; the first one is dropped");
  app.add_option("--overlap", options.overlap, "on, off or auto");
  app.add_flag("--alone", options.alone,
               "Also time the tile as a separate image, interleaved");
  app.add_flag("--keep-memory", options.keep_memory,
               "Keep freed memory in malloc, so that no step maps new pages, "
               "also with libtorch alone");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error));
  }
  return options;
}

torch::nn::Sequential make_network(const Options& options) {
  torch::nn::Sequential net;
  int from = 1;
  for (int i = 0; i < options.layers; ++i) {
    net->push_back(torch::nn::Conv2d(
        torch::nn::Conv2dOptions(from, options.channels, 3).padding(1)));
    net->push_back(torch::nn::ReLU());
    from = options.channels;
  }
  net->push_back(torch::nn::Conv2d(from, 1, 1));
  return net;
}

void keep_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
}

double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

int main(int argc, char** argv) {
  const auto world = sheaf::init(argc, argv);
  const Options options = parse(argc, argv);
  if (options.keep_memory) keep_memory();
  torch::set_num_threads(1);
  auto net = make_network(options);
  sheaf::SpatialOptions spatial{.grid = options.grid};
  if (options.overlap != "auto")
    spatial.overlap =
        options.overlap == "on" ? sheaf::Overlap::kOn : sheaf::Overlap::kOff;
  sheaf::SpatialParallel model(net, world, spatial);
  torch::optim::SGD optimizer(net->parameters(), 0.01);
  const double before = peak_mib();
  // Each rank creates only its tile.
  const std::vector<std::int64_t> sizes{options.batch, 1, options.image,
                                        options.image};
  const auto tile = model.tile_of({options.image, options.image});
  const auto part =
      torch::randn({options.batch, 1, tile.size[0], tile.size[1]});
  const auto image = model.from_part(part, sizes);
  const auto target = model.from_part(part.flip(3), sizes);
  // The same tile as a separate image, interleaved: computation only.
  auto own = make_network(options);
  const auto plain = part.flip(3);
  std::vector<double> times, alone;
  for (int step = 0; step < options.steps; ++step) {
    sheaf::barrier(world).wait();
    model.reset_stats();
    const sheaf::Stopwatch watch;
    sheaf::forget_gradients(*net);
    torch::mse_loss(model.forward(image), target).backward();
    optimizer.step();
    if (step > 0) times.push_back(watch.ms());
    if (!options.alone) continue;
    sheaf::barrier(world).wait();
    const sheaf::Stopwatch own_watch;
    sheaf::forget_gradients(*own);
    torch::mse_loss(own->forward(part), plain).backward();
    if (step > 0) alone.push_back(own_watch.ms());
  }
  if (alone.empty()) alone.push_back(0);
  std::vector<double> peak{peak_mib(), peak_mib() - before};
  sheaf::all_reduce(world, peak, {.op = sheaf::ReduceOp::kMax}).wait();
  if (world.rank() != 0) return 0;
  const auto stats = model.spatial_stats();
  std::sort(times.begin(), times.end());
  std::sort(alone.begin(), alone.end());
  fmt::print(
      "{{\"grid\": \"{}\", \"step_ms\": {:.1f}, \"best_ms\": {:.1f}, "
      "\"alone_ms\": {:.1f}, \"best_alone_ms\": {:.1f}, \"peak_mib\": {:.0f}, "
      "\"peak_above_start_mib\": {:.0f}, "
      "\"halo_exchanges\": {}, \"halo_kib\": {:.1f}, "
      "\"in_place_kib\": {:.1f}, \"wait_ms\": {:.2f}}}\n",
      options.grid, times[times.size() / 2], times.front(),
      alone[alone.size() / 2], alone.front(), peak[0], peak[1],
      stats.halo_exchanges, static_cast<double>(stats.halo_bytes) / 1024,
      static_cast<double>(stats.halo_bytes_in_place) / 1024, stats.wait_ms);
}

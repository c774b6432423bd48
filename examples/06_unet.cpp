// Trains a U-Net to find discs in images that are too large for one rank; each
// rank creates only its tile. With --share, it reports whether the tensors of a
// rank fit into that memory: they do on four ranks, but not with
// `-n 1 --grid 1x1`.
//   sheaf run -n 4 -- build/examples/06_unet --grid 2x2 --share 150
#include <fmt/format.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <fstream>
#include <numeric>
#include <sheaf/sheaf.hpp>

struct Options {
  std::string grid;
  int image = 512, steps = 20, share = 0;
};

// A value of /proc/self/status, in MiB.
double status(const std::string& name) {
  std::ifstream file("/proc/self/status");
  std::string word;
  while (file >> word && word != name + ":") continue;
  file >> word;
  return std::stod(word) / 1024;
}

// An image of bright discs on stripes, and the mask of the discs. Pixel values
// depend only on their positions, so tiles match for any grid.
auto make_tile(int seed, int side, const sheaf::Tile& tile) {
  const auto y = (torch::arange(tile.size[0]) + tile.begin[0]).view({-1, 1});
  const auto x = torch::arange(tile.size[1]) + tile.begin[1];
  auto mask = torch::zeros({1, 1, tile.size[0], tile.size[1]});
  torch::manual_seed(static_cast<std::uint64_t>(seed));  // same on all ranks
  for (int disc = 0; disc < 12; ++disc) {
    const auto place = torch::rand({3}) * side;
    const auto distance = torch::hypot(y - place[0], x - place[1]);
    mask.masked_fill_(distance < 0.02 * side + 0.08 * place[2], 1);
  }
  const auto image =
      2 * mask + torch::sin(0.3 * (x + 2 * y)) + torch::sin(x * y);
  return std::pair(image, mask);
}

// Trains, and returns the peak memory of tensors in MiB.
double train(const Options& options, const sheaf::World& world) {
  torch::manual_seed(1);
  auto net = sheaf::make_network(  // or your own module
      {"unet", {{"classes", "1"}, {"width", "8"}}, {}});
  sheaf::SpatialParallel model(net, world, {.grid = options.grid});
  torch::optim::Adam optimizer(net->parameters(), 0.03);
  const auto tile = model.tile_of({options.image, options.image});
  const double before = status("VmRSS");
  for (int step = 1; step <= options.steps; ++step) {
    const auto [image, mask] = make_tile(step, options.image, tile);
    const std::vector<std::int64_t> whole{1, 1, options.image, options.image};
    sheaf::forget_gradients(*net);
    const auto loss = torch::binary_cross_entropy_with_logits(
        model(model.from_part(image, whole)), model.from_part(mask, whole));
    loss.backward();
    optimizer.step();
    if (world.rank() == 0 && step % 5 == 0)
      fmt::print("step {}: loss {:.4f}\n", step, loss.item<double>());
  }
  return status("VmHWM") - before;
}

int main(int argc, char** argv) try {
  const auto world = sheaf::init(argc, argv);
  Options options{.grid = fmt::format("{}x1", world.size())};
  CLI::App app("Train a U-Net on images that are split over ranks");
  app.add_option("--grid", options.grid, "Grid of ranks, such as 2x2");
  app.add_option("--image", options.image, "Side of the image in pixels");
  app.add_option("--steps", options.steps, "Number of steps, one image each");
  app.add_option("--share", options.share, "MiB for the tensors of a rank");
  CLI11_PARSE(app, argc, argv);
  torch::set_num_threads(1);
  const std::vector<double> peak{train(options, world)};
  std::vector<double> peaks(static_cast<std::size_t>(world.size()));
  sheaf::all_gather(world, peak, peaks).wait();
  const double most = *std::max_element(peaks.begin(), peaks.end());
  const bool fits = options.share == 0 || most <= options.share;
  if (world.rank() == 0)
    fmt::print(
        "tensors took {:.0f} MiB by rank; one rank would need about {:.0f}{}\n",
        fmt::join(peaks, ", "), std::reduce(peaks.begin(), peaks.end()),
        fits ? "" : "; that is more than its share");
  return fits ? 0 : 1;
} catch (const std::exception& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}

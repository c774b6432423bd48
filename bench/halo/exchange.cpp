// The halo exchange of a convolution against the same with MPI's neighbour
// call on packed buffers, in one run, in turn: batches of the one and of the
// other. Both end with the halo in its place in the padded tensor; both pack
// and unpack with the same loops. The inside of the tile is left alone.
//
//   sheaf run -n 2 -- build/bench/halo_exchange
//
// A row per case: microseconds of an exchange on rank 0, best and median of
// the batches, and how many times faster. "call" is MPI's call alone, without
// packing and unpacking.

#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/statistics.hpp"
#include "sheaf/comm/flight.hpp"
#include "sheaf/comm/world.hpp"
#include "sheaf/halo/halo_exchange.hpp"
#include "sheaf/halo/strided.hpp"

namespace sheaf::halo {
namespace {

struct Case {
  bool cuts_columns;
  std::int64_t halo;
  std::int64_t channels;
  std::int64_t height;  // of the image
  std::int64_t width;
};

struct Tensor {
  Tensor(const Box& box, std::int64_t channels)
      : memory(static_cast<std::size_t>(box.volume() * channels)),
        view(contiguous_view(reinterpret_cast<std::byte*>(memory.data()),
                             {1, channels}, box)) {}
  std::vector<float> memory;
  View view;
};

Layout layout_of(const Case& it, int ranks) {
  const Grid grid =
      Grid::parse(it.cuts_columns ? concat("1x", ranks) : concat(ranks, "x1"));
  return Layout::balanced(grid, {it.height, it.width});
}

HaloPlan plan_of(const Case& it, int ranks, int rank) {
  const Layout layout = layout_of(it, ranks);
  const int axis = it.cuts_columns ? 1 : 0;
  std::vector<Box> needs;
  for (int r = 0; r < ranks; ++r) {
    Box box = layout.box_of(r);
    box[axis] = intersect({box[axis].begin - it.halo, box[axis].end + it.halo},
                          layout.whole()[axis]);
    needs.push_back(box);
  }
  return make_plan(layout, needs, rank);
}

// The same by MPI: packed messages of all neighbours, one call.
class Neighbours {
 public:
  Neighbours(const HaloPlan& plan, std::int64_t channels)
      : plan_(plan), channels_(channels) {
    add(plan.sends, out_, out_counts_, out_places_);
    add(plan.receives, in_, in_counts_, in_places_);
    const auto sources = peers_of(plan.receives);
    const auto targets = peers_of(plan.sends);
    MPI_Dist_graph_create_adjacent(
        MPI_COMM_WORLD, static_cast<int>(sources.size()), sources.data(),
        MPI_UNWEIGHTED, static_cast<int>(targets.size()), targets.data(),
        MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &graph_);
  }
  ~Neighbours() { MPI_Comm_free(&graph_); }
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  void call() {
    MPI_Neighbor_alltoallv(out_.data(), out_counts_.data(), out_places_.data(),
                           MPI_FLOAT, in_.data(), in_counts_.data(),
                           in_places_.data(), MPI_FLOAT, graph_);
  }
  void exchange(const View& tile, const View& wanted) {
    for (std::size_t i = 0; i < plan_.sends.size(); ++i)
      copy_view(part_of(tile, plan_.tile, plan_.sends[i].box, sizeof(float)),
                packed(out_, out_places_[i], plan_.sends[i].box),
                sizeof(float));
    call();
    for (std::size_t i = 0; i < plan_.receives.size(); ++i)
      copy_view(
          packed(in_, in_places_[i], plan_.receives[i].box),
          part_of(wanted, plan_.wanted, plan_.receives[i].box, sizeof(float)),
          sizeof(float));
  }

 private:
  static std::vector<int> peers_of(const std::vector<HaloMessage>& messages) {
    std::vector<int> peers;
    for (const auto& message : messages) peers.push_back(message.peer);
    return peers;
  }
  void add(const std::vector<HaloMessage>& messages, std::vector<float>& buffer,
           std::vector<int>& counts, std::vector<int>& places) {
    for (const auto& message : messages) {
      places.push_back(static_cast<int>(buffer.size()));
      counts.push_back(static_cast<int>(message.box.volume() * channels_));
      buffer.resize(buffer.size() + static_cast<std::size_t>(counts.back()));
    }
  }
  View packed(std::vector<float>& buffer, int place, const Box& box) {
    return contiguous_view(reinterpret_cast<std::byte*>(buffer.data() + place),
                           {1, channels_}, box);
  }

  HaloPlan plan_;
  std::int64_t channels_;
  MPI_Comm graph_ = MPI_COMM_NULL;
  std::vector<float> out_, in_;
  std::vector<int> out_counts_, out_places_, in_counts_, in_places_;
};

template <class Body>
double microseconds(int repeats, Body body) {
  const std::int64_t since = comm::now_ns();
  for (int i = 0; i < repeats; ++i) body();
  return static_cast<double>(comm::now_ns() - since) / repeats / 1000;
}

struct Times {
  std::vector<double> ours, theirs, call;
};

void print(const Case& it, const Times& times, std::int64_t bytes) {
  const double ours = median(times.ours);
  const double theirs = median(times.theirs);
  std::printf(
      "%-7s %4ld %9ld %9.1f %9.1f %9.1f %9.1f %9.1f %9.1f %6.2f %6.2f\n",
      it.cuts_columns ? "columns" : "rows", long(it.halo), long(bytes),
      minimum(times.ours), ours, minimum(times.theirs), theirs,
      minimum(times.call), median(times.call),
      minimum(times.theirs) / minimum(times.ours), theirs / ours);
  std::fflush(stdout);
}

void run(const comm::Group& group, const Case& it, int batches, int repeats) {
  HaloExchange exchange(group, plan_of(it, group.size(), group.rank()),
                        DType::kF32);
  const HaloPlan& plan = exchange.plan();
  Neighbours neighbours(plan, it.channels);
  Tensor tile(plan.tile, it.channels);
  for (std::size_t i = 0; i < tile.memory.size(); ++i)
    tile.memory[i] = static_cast<float>((i + 7) % 1000 + group.rank());
  Tensor ours(plan.wanted, it.channels);
  Tensor theirs(plan.wanted, it.channels);
  Times times;
  for (int batch = 0; batch < batches; ++batch) {
    times.ours.push_back(microseconds(repeats, [&] {
      exchange.finish(exchange.start(tile.view), ours.view, Part::kHalo);
    }));
    times.theirs.push_back(microseconds(
        repeats, [&] { neighbours.exchange(tile.view, theirs.view); }));
    times.call.push_back(microseconds(repeats, [&] { neighbours.call(); }));
  }
  SHEAF_ASSERT(ours.memory == theirs.memory, "halos differ");
  if (group.rank() == 0)
    print(it, times,
          plan.received_volume() * it.channels *
              static_cast<std::int64_t>(sizeof(float)));
}

}  // namespace
}  // namespace sheaf::halo

int main(int argc, char** argv) {
  const auto world = sheaf::comm::init(&argc, &argv);
  int has_mpi = 0;
  MPI_Initialized(&has_mpi);
  SHEAF_CHECK(has_mpi && world.size() > 1,
              "start it on ranks: sheaf run -n 2 -- ", argv[0]);
  const int batches = argc > 1 ? std::atoi(argv[1]) : 200;
  if (world.rank() == 0)
    std::printf("%-7s %4s %9s %9s %9s %9s %9s %9s %9s %6s %6s\n", "cut", "halo",
                "bytes", "best us", "median", "mpi best", "median", "call best",
                "median", "best", "median");
  for (const std::int64_t halo : {1, 2})
    for (const bool cuts_columns : {false, true})
      sheaf::halo::run(world, {cuts_columns, halo, 64, 512, 512}, batches, 20);
}

// Compares the halo exchange of a convolution with MPI's neighbor collective on
// packed buffers, in one run, with interleaved batches. Both end with the halo
// in its place in the padded tensor, and both pack and unpack with the same
// loops. The interior of the tile is not touched.
//
//   sheaf run -n 2 -- build/bench/halo_exchange
//
// Prints one row per case: microseconds per exchange on rank 0, best and median
// of the batches, for Sheaf, for MPI, and for the MPI call alone, without
// packing and unpacking; then the speedup over MPI, best and median. Tensors
// are in plain memory, where the tile is packed, or in the arena, where
// neighbors read it in place; the same for both sides.

#define OMPI_SKIP_MPICXX
#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/base/statistics.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/host/flight.hpp"
#include "sheaf/halo/halo_exchange.hpp"
#include "sheaf/halo/view.hpp"

namespace sheaf::halo {
namespace {

struct Case {
  bool cuts_columns;
  std::int64_t halo;
  std::int64_t channels;
  std::int64_t height;  // image height
  std::int64_t width;
  bool is_in_arena;
};

struct Tensor {
  Tensor(std::shared_ptr<std::byte> memory_, const Box& box,
         std::int64_t channels)
      : memory(std::move(memory_)),
        count(static_cast<std::size_t>(box.volume() * channels)),
        view(contiguous_view(memory.get(), {1, channels}, box)) {
    std::memset(memory.get(), 0, count * sizeof(float));
  }
  float* values() const { return reinterpret_cast<float*>(memory.get()); }
  bool operator==(const Tensor& other) const {
    return std::memcmp(memory.get(), other.memory.get(),
                       count * sizeof(float)) == 0;
  }
  std::shared_ptr<std::byte> memory;
  std::size_t count;
  View view;
};

// A tensor in the arena, or in memory that only this process can access.
Tensor make_tensor(const comm::Group& group, const Case& it, const Box& box) {
  const auto bytes =
      static_cast<std::size_t>(box.volume() * it.channels) * sizeof(float);
  if (it.is_in_arena) return {group.allocate_bytes(bytes), box, it.channels};
  void* memory = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
  return {
      std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), std::free),
      box, it.channels};
}

Tiling tiling_of(const Case& it, int ranks) {
  const Grid grid =
      Grid::parse(it.cuts_columns ? concat("1x", ranks) : concat(ranks, "x1"));
  return Tiling::balanced(grid, {it.height, it.width});
}

HaloPlan plan_of(const Case& it, int ranks, int rank) {
  const Tiling tiling = tiling_of(it, ranks);
  const int axis = it.cuts_columns ? 1 : 0;
  std::vector<Box> needs;
  for (int r = 0; r < ranks; ++r) {
    Box box = tiling.box_of(r);
    box[axis] = intersect({box[axis].begin - it.halo, box[axis].end + it.halo},
                          tiling.whole()[axis]);
    needs.push_back(box);
  }
  return make_plan(tiling, needs, rank);
}

// The same with MPI: packed messages of all neighbors, in one call.
class Neighbors {
 public:
  Neighbors(const HaloPlan& plan, std::int64_t channels)
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
  ~Neighbors() { MPI_Comm_free(&graph_); }
  Neighbors(const Neighbors&) = delete;
  Neighbors& operator=(const Neighbors&) = delete;

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
  const std::int64_t since = now_ns();
  for (int i = 0; i < repeats; ++i) body();
  return static_cast<double>(now_ns() - since) / repeats / 1000;
}

struct Times {
  std::vector<double> ours, theirs, call;
};

void print(const Case& it, const Times& times, std::int64_t bytes) {
  std::printf("%-7s %4ld %-6s %7ld", it.cuts_columns ? "columns" : "rows",
              long(it.halo), it.is_in_arena ? "arena" : "plain", long(bytes));
  for (const auto* values : {&times.ours, &times.theirs, &times.call})
    std::printf(" %8.1f %8.1f", minimum(*values), median(*values));
  std::printf(" %6.2f %6.2f\n", minimum(times.theirs) / minimum(times.ours),
              median(times.theirs) / median(times.ours));
  std::fflush(stdout);
}

void run(const comm::Group& group, const Case& it, int batches, int repeats) {
  const HaloPlan plan = plan_of(it, group.size(), group.rank());
  HaloExchange exchange(group, plan, DType::kF32);
  Neighbors neighbors(plan, it.channels);
  const Tensor tile = make_tensor(group, it, plan.tile);
  for (std::size_t i = 0; i < tile.count; ++i)
    tile.values()[i] =
        static_cast<float>((i + 7) % 1000) + static_cast<float>(group.rank());
  const Tensor ours = make_tensor(group, it, plan.wanted);
  const Tensor theirs = make_tensor(group, it, plan.wanted);
  Times times;
  for (int batch = 0; batch < batches; ++batch) {
    times.ours.push_back(microseconds(repeats, [&] {
      exchange.finish(exchange.start(tile.view), ours.view, Part::kHalo);
    }));
    times.theirs.push_back(microseconds(
        repeats, [&] { neighbors.exchange(tile.view, theirs.view); }));
    times.call.push_back(microseconds(repeats, [&] { neighbors.call(); }));
  }
  SHEAF_ASSERT(ours == theirs, "halos differ");
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
              "start it on several ranks: sheaf run -n 2 -- ", argv[0]);
  const int batches = argc > 1 ? std::atoi(argv[1]) : 200;
  if (world.rank() == 0)
    std::printf("%-7s %4s %-6s %7s %17s %17s %17s %13s\n", "cut", "halo",
                "memory", "bytes", "sheaf", "mpi", "mpi's call", "times");
  for (const std::int64_t halo : {1, 2})
    for (const bool cuts_columns : {false, true})
      for (const bool is_in_arena : {false, true})
        sheaf::halo::run(world, {cuts_columns, halo, 64, 512, 512, is_in_arena},
                         batches, 20);
}

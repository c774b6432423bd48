#include "sheaf/spatial/split/tiles.hpp"

#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/spatial/split/dispatch.hpp"

namespace sheaf::spatial {

Tiles::Tiles(const comm::Group& group, const halo::Grid& grid,
             parallel::Overlap overlap)
    : group_(group),
      grid_(grid),
      is_overlapping_(overlap != parallel::Overlap::kOff),
      memory_(group),
      exchanges_(group) {
  halo::check_fits(grid, group.size());
  use_split_operations();
  std::vector<std::int64_t> seed{0};
  if (rank() == 0)
    seed[0] =
        at::randint(std::int64_t{1} << 62, {1}, at::kLong).item<std::int64_t>();
  comm::broadcast(group_, seed, {.name = "dropout seed of the tiles"}).wait();
  seed_ = static_cast<std::uint64_t>(seed[0]);
}

void Tiles::begin_backward() const {
  SHEAF_CHECK(!at::GradMode::is_enabled(), "rank ", rank(),
              ": gradients of gradients (create_graph, a gradient penalty) are "
              "not supported by the exchanges of a ",
              grid_.text(),
              " grid; compute this part of the loss on gathered tensors "
              "(sheaf::spatial::gather), or with a network in one process");
  memory_.use_in_backward();
}

SpatialStats Tiles::counted() const {
  SpatialStats sum = stats_;
  const halo::HaloCounters counters = exchanges_.counters();
  sum.halo_exchanges = counters.exchanges;
  sum.halo_messages = counters.messages;
  sum.halo_bytes = counters.bytes_sent;
  sum.halo_bytes_in_place = counters.bytes_in_place;
  sum.halo_bytes_read = counters.bytes_read;
  sum.wait_ms = static_cast<double>(counters.wait_ns) * 1e-6;
  return sum;
}

SpatialStats Tiles::stats() const {
  SpatialStats sum = counted();
  sum.halo_exchanges -= before_.halo_exchanges;
  sum.halo_messages -= before_.halo_messages;
  sum.halo_bytes -= before_.halo_bytes;
  sum.halo_bytes_in_place -= before_.halo_bytes_in_place;
  sum.halo_bytes_read -= before_.halo_bytes_read;
  sum.reductions -= before_.reductions;
  sum.reduced_bytes -= before_.reduced_bytes;
  sum.wait_ms -= before_.wait_ms;
  return sum;
}

void Tiles::reset_stats() { before_ = counted(); }

}  // namespace sheaf::spatial

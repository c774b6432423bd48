#include "sheaf/spatial/tiles.hpp"

#include <torch/torch.h>

#include "sheaf/comm/collectives.hpp"
#include "sheaf/spatial/dispatch.hpp"

namespace sheaf::spatial {

Tiles::Tiles(const comm::Group& group, const halo::Grid& grid,
             parallel::Overlap overlap)
    : group_(group),
      grid_(grid),
      is_overlapping_(parallel::should_overlap(overlap, group)) {
  halo::check_fits(grid, group.size());
  use_split_operations();
  std::vector<std::int64_t> seed{0};
  if (rank() == 0)
    seed[0] =
        at::randint(std::int64_t{1} << 62, {1}, at::kLong).item<std::int64_t>();
  comm::broadcast(group_, seed, {.name = "seed of the tiles"});
  seed_ = static_cast<std::uint64_t>(seed[0]);
}

halo::HaloExchange& Tiles::exchange(const halo::Layout& layout,
                                    const std::vector<halo::Box>& needs,
                                    DType dtype) {
  Key key;
  key.numbers.push_back(static_cast<std::int64_t>(dtype));
  for (int axis = 0; axis < layout.axes(); ++axis)
    for (const std::int64_t cut : layout.cuts(axis).positions())
      key.numbers.push_back(cut);
  for (const halo::Box& box : needs)
    for (const halo::Interval& interval : box.axes) {
      key.numbers.push_back(interval.begin);
      key.numbers.push_back(interval.end);
    }
  auto& found = exchanges_[key];
  if (!found)
    found = std::make_unique<halo::HaloExchange>(
        group_, halo::make_plan(layout, needs, rank()), dtype);
  return *found;
}

SpatialStats Tiles::counted() const {
  SpatialStats sum = stats_;
  for (const auto& [key, exchange] : exchanges_) {
    const halo::HaloCounters& counters = exchange->counters();
    sum.halo_exchanges += counters.exchanges;
    sum.halo_messages += counters.messages;
    sum.halo_bytes += counters.bytes_sent;
    sum.wait_ms += static_cast<double>(counters.wait_ns) * 1e-6;
  }
  return sum;
}

SpatialStats Tiles::stats() const {
  SpatialStats sum = counted();
  sum.halo_exchanges -= before_.halo_exchanges;
  sum.halo_messages -= before_.halo_messages;
  sum.halo_bytes -= before_.halo_bytes;
  sum.reductions -= before_.reductions;
  sum.reduced_bytes -= before_.reduced_bytes;
  sum.wait_ms -= before_.wait_ms;
  return sum;
}

void Tiles::reset_stats() { before_ = counted(); }

}  // namespace sheaf::spatial

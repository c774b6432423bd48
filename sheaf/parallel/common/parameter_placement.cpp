#include "sheaf/parallel/common/parameter_placement.hpp"

#include <algorithm>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::parallel {

PlacementCode placement_code(const at::Device& device) {
  if (device.is_cpu()) return 0;
  const int index = device.has_index() ? device.index() : 0;
  return static_cast<PlacementCode>(1 + index);
}

std::vector<Placement> placements_of(const std::vector<PlacementCode>& codes,
                                     int ranks) {
  const auto rows = static_cast<std::size_t>(ranks);
  const std::size_t parameters = codes.size() / rows;
  std::map<std::vector<PlacementCode>, int> numbers;
  std::vector<Placement> placements;
  for (std::size_t i = 0; i < parameters; ++i) {
    std::vector<PlacementCode> column;
    for (std::size_t rank = 0; rank < rows; ++rank)
      column.push_back(codes[rank * parameters + i]);
    const auto on_host = std::count(column.begin(), column.end(), 0);
    const int next = static_cast<int>(numbers.size());
    placements.push_back({numbers.emplace(column, next).first->second,
                          on_host == ranks, on_host == 0});
  }
  return placements;
}

std::vector<Placement> agree_on_placements(
    const comm::Group& group, const std::vector<PlacementCode>& mine) {
  std::vector<PlacementCode> all(mine.size() *
                                 static_cast<std::size_t>(group.size()));
  comm::all_gather(group, mine, all, {.name = "devices of parameters"}).wait();
  return placements_of(all, group.size());
}

void check_same_placement(const comm::Group& group,
                          const std::vector<at::Tensor>& parameters,
                          const char* what) {
  std::vector<PlacementCode> mine;
  for (const at::Tensor& one : parameters)
    mine.push_back(placement_code(one.device()));
  for (const Placement& placement : agree_on_placements(group, mine))
    SHEAF_CHECK(placement.is_host || placement.is_device, what,
                " needs the module on the same kind of device on all ranks, "
                "but some ranks have it on the CPU and others do not; move "
                "it, or use DataParallel");
}

}  // namespace sheaf::parallel

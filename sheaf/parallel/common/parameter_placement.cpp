#include "sheaf/parallel/common/parameter_placement.hpp"

#include <algorithm>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"

namespace sheaf::parallel {

HomeCode home_code(const at::Device& device) {
  if (device.is_cpu()) return 0;
  const int index = device.has_index() ? device.index() : 0;
  return static_cast<HomeCode>(1 + index);
}

std::vector<Home> homes_of(const std::vector<HomeCode>& codes, int ranks) {
  const auto rows = static_cast<std::size_t>(ranks);
  const std::size_t parameters = codes.size() / rows;
  std::map<std::vector<HomeCode>, int> numbers;
  std::vector<Home> homes;
  for (std::size_t i = 0; i < parameters; ++i) {
    std::vector<HomeCode> column;
    for (std::size_t rank = 0; rank < rows; ++rank)
      column.push_back(codes[rank * parameters + i]);
    const auto on_host = std::count(column.begin(), column.end(), 0);
    const int next = static_cast<int>(numbers.size());
    homes.push_back({numbers.emplace(column, next).first->second,
                     on_host == ranks, on_host == 0});
  }
  return homes;
}

std::vector<Home> agree_on_homes(const comm::Group& group,
                                 const std::vector<HomeCode>& mine) {
  std::vector<HomeCode> all(mine.size() *
                            static_cast<std::size_t>(group.size()));
  comm::all_gather(group, mine, all, {.name = "homes of parameters"}).wait();
  return homes_of(all, group.size());
}

void check_like_homes(const comm::Group& group,
                      const std::vector<at::Tensor>& parameters,
                      const char* what) {
  std::vector<HomeCode> mine;
  for (const at::Tensor& one : parameters)
    mine.push_back(home_code(one.device()));
  for (const Home& home : agree_on_homes(group, mine))
    SHEAF_CHECK(home.is_host || home.is_device, what,
                " needs the module on the same kind of device on all ranks, "
                "but some ranks have it on the CPU and others do not; move "
                "it, or use DataParallel");
}

}  // namespace sheaf::parallel

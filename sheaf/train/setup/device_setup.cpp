#include "sheaf/train/setup/device_setup.hpp"

#include <torch/cuda.h>

#include <algorithm>

#include "sheaf/train/files/from_root.hpp"

namespace sheaf::train {
namespace {

void check_cuda(const RunConfig& config, const comm::Group& group) {
  SHEAF_CHECK(torch::cuda::is_available(), config.where("device"),
              "device is cuda for rank ", group.rank(), ", but ",
              group.host_name(),
              " has no GPU that libtorch can use; set device=cpu, or a list "
              "with one device for each rank");
}

}  // namespace

torch::Device device_of_rank(const RunConfig& config,
                             const comm::Group& group) {
  from_root(group, [&] {
    config.check_ranks(group.size());
    if (config.device_of(0) == "cuda") check_cuda(config, group);
    return std::string();
  });
  const bool is_cuda = config.device_of(group.rank()) == "cuda";
  const auto ranks = from_all(group, 2, [&] {
    if (is_cuda) check_cuda(config, group);
    return std::vector<std::int64_t>{group.host_index(), is_cuda};
  });
  if (!is_cuda) return torch::kCPU;
  const auto end = ranks.begin() + group.rank();
  const auto before = std::count(ranks.begin(), end,
                                 ranks[static_cast<std::size_t>(group.rank())]);
  const auto count = static_cast<long>(torch::cuda::device_count());
  return {torch::kCUDA, static_cast<torch::DeviceIndex>(before % count)};
}

}  // namespace sheaf::train

#include "sheaf/spatial/spatial_parallel.hpp"
#include "under_test.hpp"

namespace differential {
namespace {

namespace spatial = sheaf::spatial;

std::string grid_of(const Item& setting) {
  std::string text = std::to_string(setting.get("grid0", 1));
  for (const char* key : {"grid1", "grid2"})
    if (setting.has(key)) text += "x" + std::to_string(setting.get(key));
  return text;
}

spatial::SpatialOptions spatial_options(const Case& one) {
  const sheaf::parallel::DataParallelOptions data = data_options(one);
  return {.grid = grid_of(one.setting),
          .samples = unit_count(one),
          .bucket_mb = data.bucket_mb,
          .first_bucket_mb = data.first_bucket_mb,
          .broadcast_buffers = data.broadcast_buffers,
          .find_unused_parameters = data.find_unused_parameters,
          .static_graph = data.static_graph,
          .overlap = data.overlap,
          .exchange = data.exchange};
}

class WrappedSpatial : public Wrapped {
 public:
  WrappedSpatial(const Case& one, std::shared_ptr<Net> net,
                 const sheaf::comm::Group& group)
      : model_(std::move(net), group, spatial_options(one)) {}
  Session::Outputs forward(const Input& input) override {
    return model_.forward(input.x, input.more);
  }
  sheaf::parallel::Strategy& strategy() override { return model_; }
  sheaf::parallel::DataParallelCore* data() override { return &model_; }
  at::Tensor whole(const at::Tensor& output) override {
    const at::NoGradGuard no_grad;
    return spatial::is_split(output) ? spatial::gather(output) : output;
  }

 private:
  spatial::SpatialParallel<Net> model_;
};

}  // namespace

std::unique_ptr<Wrapped> wrap_spatial(const Case& one, std::shared_ptr<Net> net,
                                      const sheaf::comm::Group& group) {
  return std::make_unique<WrappedSpatial>(one, std::move(net), group);
}

}  // namespace differential

#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "under_test.hpp"

namespace differential {
namespace {

namespace parallel = sheaf::parallel;

std::shared_ptr<parallel::BucketExchange> exchange_of(const Item& setting) {
  switch (setting.get("exchange")) {
    case 1:
      return parallel::make_half_exchange(at::kHalf);
    case 2:
      return parallel::make_half_exchange(at::kBFloat16);
    case 3:
      return parallel::make_power_sgd_exchange(
          {.rank = static_cast<int>(setting.get("power_rank", 1)),
           .start_step = static_cast<int>(setting.get("power_start"))});
    default:
      return nullptr;
  }
}

class WrappedData : public Wrapped {
 public:
  WrappedData(const Case& one, std::shared_ptr<Net> net,
              const sheaf::comm::Group& group)
      : model_(std::move(net), group, data_options(one)) {}
  Session::Outputs forward(const Input& input) override {
    return model_.forward(input.x, input.more);
  }
  parallel::Strategy& strategy() override { return model_; }
  parallel::DataParallelCore* data() override { return &model_; }

 private:
  parallel::DataParallel<Net> model_;
};

}  // namespace

// In units of 100 bytes, so that small networks have many buckets.
double bucket_mb(const Case& one) {
  return static_cast<double>(one.setting.get("bucket")) * 100 / (1 << 20);
}

parallel::DataParallelOptions data_options(const Case& one) {
  const Item& setting = one.setting;
  parallel::DataParallelOptions options;
  if (setting.has("bucket")) {
    options.bucket_mb = bucket_mb(one);
    options.first_bucket_mb = options.bucket_mb / 2;
  }
  options.broadcast_buffers = !setting.has("keeps_buffers");
  options.find_unused_parameters = setting.has("find_unused");
  options.static_graph = setting.has("static_graph");
  options.overlap = static_cast<parallel::Overlap>(setting.get("overlap"));
  options.exchange = exchange_of(setting);
  return options;
}

std::unique_ptr<Wrapped> wrap_data(const Case& one, std::shared_ptr<Net> net,
                                   const sheaf::comm::Group& group) {
  return std::make_unique<WrappedData>(one, std::move(net), group);
}

}  // namespace differential

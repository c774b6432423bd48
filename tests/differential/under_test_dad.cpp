#include <map>

#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "under_test.hpp"

namespace differential {
namespace {

namespace parallel = sheaf::parallel;

parallel::DadMode mode_of(const std::string& name) {
  static const std::map<std::string, parallel::DadMode> kModes{
      {"dad", parallel::DadMode::kDad},
      {"edad", parallel::DadMode::kEdad},
      {"rank-dad", parallel::DadMode::kRankDad},
      {"auto", parallel::DadMode::kAuto}};
  const auto found = kModes.find(name);
  require(found != kModes.end(), "no strategy is called " + name);
  return found->second;
}

parallel::DadOptions dad_options(const Case& one, int ranks) {
  const Item& setting = one.setting;
  parallel::DadOptions options;
  options.mode = mode_of(setting.kind);
  options.rank = static_cast<int>(setting.get("rank", 4));
  options.feedback_rows = static_cast<int>(setting.get("feedback"));
  options.where = static_cast<parallel::Where>(setting.get("star"));
  options.is_two_way = setting.has("two_way");
  if (setting.has("parcel"))
    options.parcel_bytes = static_cast<double>(setting.get("parcel"));
  if (setting.has("zeros")) options.skips_zeros = setting.get("zeros") == 1;
  options.first_layer_gradient = setting.has("first_layer");
  if (!setting.has("measures_link"))
    options.link = parallel::LinkModel{.ranks = ranks};
  if (setting.has("trials")) options.has_trials = setting.get("trials") == 1;
  if (setting.has("average_ranks")) options.average = parallel::Average::kRanks;
  options.broadcast_buffers = !setting.has("keeps_buffers");
  options.find_unused_parameters = true;
  if (setting.has("bucket")) options.bucket_mb = bucket_mb(one);
  options.overlap = static_cast<parallel::Overlap>(setting.get("overlap"));
  return options;
}

class WrappedDad : public Wrapped {
 public:
  WrappedDad(const Case& one, std::shared_ptr<Net> net,
             const sheaf::comm::Group& group)
      : model_(std::move(net), group, dad_options(one, group.size())) {}
  Session::Outputs forward(const Input& input) override {
    return model_.forward(input.x, input.more);
  }
  parallel::Strategy& strategy() override { return model_; }

 private:
  parallel::DadParallel<Net> model_;
};

}  // namespace

std::unique_ptr<Wrapped> wrap_dad(const Case& one, std::shared_ptr<Net> net,
                                  const sheaf::comm::Group& group) {
  return std::make_unique<WrappedDad>(one, std::move(net), group);
}

}  // namespace differential

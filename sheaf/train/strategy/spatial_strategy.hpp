#pragma once
// Training with images that are split over ranks.

#include "sheaf/spatial/spatial_parallel.hpp"
#include "sheaf/train/strategy/training_strategy.hpp"

namespace sheaf::train {

class SpatialStrategy : public TrainingStrategy {
 public:
  SpatialStrategy(const std::shared_ptr<torch::nn::Module>& module,
                  const comm::Group& group,
                  std::unique_ptr<spatial::SpatialParallelCore> core);

  const comm::Group& samples() const override { return core_->samples(); }
  // A batch holds whole images, or this rank's tiles (Batch::whole).
  at::Tensor input_part(const at::Tensor& images,
                        const data::Batch& batch) const override;
  at::Tensor target_part(const at::Tensor& target,
                         const data::Batch& batch) const override;
  at::Tensor target_for(const at::Tensor& output,
                        const at::Tensor& target) const override;
  at::Tensor output_for_metrics(const at::Tensor& output) const override;
  bool counts_samples() const override;
  bool has_whole_outputs() const override { return false; }
  bool exchanges_in_layers() const override { return true; }
  void clip_gradients(double max_norm) override;
  at::Tensor gather_owned(const at::Tensor& parameter,
                          const at::Tensor& own) const override;
  void listen(spatial::Tiles::Listener listener,
              spatial::Tiles::WeightNames names = {}) override;

 private:
  parallel::Strategy* core() const override { return core_.get(); }

  std::unique_ptr<spatial::SpatialParallelCore> core_;
};

}  // namespace sheaf::train

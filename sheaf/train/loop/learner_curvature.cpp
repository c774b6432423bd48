// Computes the loss of a step for second derivatives: everything in the type of
// the weights, without communication and without changing the run's state.
#include <ATen/Context.h>

#include "sheaf/base/error.hpp"
#include "sheaf/data/dataset/random.hpp"
#include "sheaf/parallel/precision/precision_flags.hpp"
#include "sheaf/train/checkpoint/kept_state.hpp"
#include "sheaf/train/loop/learner.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;

// While it exists, attention uses operators that can be differentiated twice.
// The set of switches depends on the libtorch version.
template <class Context>
class PlainAttention {
 public:
  explicit PlainAttention(Context& context)
      : context_(context), had_flash_(context.userEnabledFlashSDP()) {
    context_.setSDPUseFlash(false);
    if constexpr (requires { context.setSDPUseMemEfficient(false); }) {
      had_efficient_ = context.userEnabledMemEfficientSDP();
      context.setSDPUseMemEfficient(false);
    }
    if constexpr (requires { context.setSDPUseCuDNN(false); }) {
      had_cudnn_ = context.userEnabledCuDNNSDP();
      context.setSDPUseCuDNN(false);
    }
  }
  ~PlainAttention() {
    context_.setSDPUseFlash(had_flash_);
    if constexpr (requires { context_.setSDPUseMemEfficient(false); })
      context_.setSDPUseMemEfficient(had_efficient_);
    if constexpr (requires { context_.setSDPUseCuDNN(false); })
      context_.setSDPUseCuDNN(had_cudnn_);
  }
  PlainAttention(const PlainAttention&) = delete;
  PlainAttention& operator=(const PlainAttention&) = delete;

 private:
  Context& context_;
  bool had_flash_ = true;
  bool had_efficient_ = true;
  bool had_cudnn_ = true;
};

}  // namespace

std::vector<Curvature> Learner::curvature(const data::Batch& batch,
                                          const std::vector<Tensor>& weights,
                                          int samples) {
  SHEAF_CHECK(
      !spatial_ && (!config_.parallel.sync_batchnorm || group_.size() == 1),
      "the curvature of the loss is available only for networks whose "
      "layers do not communicate; remove strategy: spatial and "
      "sync_batchnorm, or record one rank");
  const auto random = data::Random(static_cast<std::uint64_t>(config_.seed))
                          .derive(static_cast<std::uint64_t>(group_.rank()));
  CurvatureSums sums(weights, samples, random.derive(0).next());
  const KeptState kept(*model_.module, device_);
  torch::manual_seed(random.derive(1).next());
  const PlainAttention attention(at::globalContext());
  const parallel::Tf32Flags exact(false);
  const std::int64_t parts = parts_of(batch);
  for (std::int64_t i = 0; i < parts && batch.size() > 0; ++i) {
    const Piece piece = piece_of_step(batch, i);
    const Tensor output = model_.forward(piece.data);
    sums.add(loss_sum(output, piece.target) * piece.weight);
  }
  return mean_curvature(sums.values(), group_);
}

}  // namespace sheaf::train

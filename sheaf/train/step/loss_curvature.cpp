// Computes the loss of a step for second derivatives: everything in the type of
// the weights, without communication and without changing the run's state.
#include "sheaf/train/step/loss_curvature.hpp"

#include <ATen/Context.h>

#include "sheaf/parallel/precision/precision_flags.hpp"
#include "sheaf/train/checkpoint/kept_state.hpp"

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

std::vector<Curvature> loss_curvature(const LossPath& path,
                                      const data::Batch& batch,
                                      const std::vector<Tensor>& weights,
                                      const CurvatureOptions& options) {
  CurvatureSums sums(weights, options.samples, options.random.derive(0).next());
  const KeptState kept(path.network.module(), path.network.device());
  torch::manual_seed(options.random.derive(1).next());
  const PlainAttention attention(at::globalContext());
  const parallel::Tf32Flags exact(false);
  const std::int64_t pieces = path.cutter.pieces_of(batch);
  for (std::int64_t i = 0; i < pieces && batch.size() > 0; ++i) {
    const Piece piece = path.cutter.piece(batch, i);
    const Tensor output = path.network.forward(piece.data);
    sums.add(path.loss.sum(output, piece.target) * piece.weight);
  }
  return sums.values();
}

}  // namespace sheaf::train

#include "sheaf/train/pretrainer.hpp"

#include <torch/torch.h>

#include "sheaf/tensor/collectives.hpp"

namespace sheaf::train {

using torch::Tensor;

Pretrainer::Pretrainer(const PretrainingConfig& config,
                       nn::Pretrainable& network, std::size_t stage,
                       const comm::Group& group)
    : config_(config),
      network_(network),
      stage_(stage),
      group_(group),
      filters_(network.filters(stage)) {}

PretrainingCost Pretrainer::step(const Tensor& images, double weight) {
  PretrainingCost cost;
  const Gradients gradients = gradients_of(images, weight, cost);
  tensor::all_reduce_n(group_, {gradients.encoder, gradients.decoder},
                       {.op = comm::ReduceOp::kAvg, .name = "pre-training"});
  if (config_.update == "two_step") {
    apply(gradients.decoder);
    apply(gradients.encoder);
  } else {
    apply(gradients.encoder + gradients.decoder);
  }
  return cost;
}

Pretrainer::Gradients Pretrainer::gradients_of(const Tensor& images,
                                               double weight,
                                               PretrainingCost& cost) const {
  // Apart from the module's parameter, whose gradient hooks are for others.
  const Tensor encoder = filters_->weight.detach().requires_grad_();
  const Tensor decoder = filters_->weight.detach().requires_grad_();
  if (images.size(0) == 0)
    return {torch::zeros_like(encoder).detach(),
            torch::zeros_like(decoder).detach()};
  Tensor seen;
  {
    const torch::NoGradGuard no_grad;
    seen = network_.run_to(stage_, images);
  }
  const Tensor filtered = filters_->encode(seen, encoder);
  const Tensor error = filters_->decode(filtered, decoder) - seen;
  const Tensor reconstruction = error.mul(error).sum() * (0.5 * weight);
  const Tensor sparsity =
      network_.pool(stage_, filtered).sum() * (config_.sparsity * weight);
  cost = {reconstruction.item<double>(), sparsity.item<double>()};
  const auto gradients =
      torch::autograd::grad({reconstruction + sparsity}, {encoder, decoder});
  return {gradients[0].contiguous(), gradients[1].contiguous()};
}

void Pretrainer::apply(const Tensor& gradient) {
  const torch::NoGradGuard no_grad;
  filters_->weight.sub_(gradient, config_.learning_rate);
  nn::normalise_filters_(filters_->weight);
}

}  // namespace sheaf::train

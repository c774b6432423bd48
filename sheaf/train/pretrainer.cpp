#include "sheaf/train/pretrainer.hpp"

#include <torch/torch.h>

#include <cmath>

#include "sheaf/comm/collectives.hpp"
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
      filters_(network.filters(stage)) {
  if (config.cost == "plain")
    scale_ = 1;
  else
    shares_ = config.gain / filters_->coverage().clamp_min(1);
}

PretrainingCost Pretrainer::step(const Tensor& images, double weight) {
  PretrainingCost cost;
  Tensor seen = seen_in(images);
  if (!scale_) scale_ = scale_of(seen, weight);
  if (*scale_ != 1) seen = seen * *scale_;
  const Gradients gradients = gradients_of(seen, weight, cost);
  tensor::all_reduce_n(group_, {gradients.encoder, gradients.decoder},
                       {.op = comm::ReduceOp::kAvg, .name = "pre-training"})
      .wait();
  if (config_.update == "two_step") {
    apply(gradients.decoder);
    apply(gradients.encoder);
  } else {
    apply(gradients.encoder + gradients.decoder);
  }
  return cost;
}

Tensor Pretrainer::seen_in(const Tensor& images) const {
  const torch::NoGradGuard no_grad;
  return images.size(0) == 0 ? images : network_.run_to(stage_, images);
}

double Pretrainer::scale_of(const Tensor& seen, double weight) const {
  std::vector<double> squares{0};
  if (seen.size(0) > 0)
    squares[0] = seen.mul(seen).sum().item<double>() * weight;
  comm::all_reduce(group_, squares, {.name = "pre-training scale"}).wait();
  const nn::Pair& image = filters_->options().image;
  const double mean =
      squares[0] / group_.size() / static_cast<double>(image[0] * image[1]);
  return mean > 0 ? 1 / std::sqrt(mean) : 1;
}

Tensor Pretrainer::decode(const Tensor& filtered, const Tensor& weights) const {
  const Tensor sums = filters_->decode(filtered, weights);
  return shares_.defined() ? sums * shares_ : sums;
}

Pretrainer::Gradients Pretrainer::gradients_of(const Tensor& seen,
                                               double weight,
                                               PretrainingCost& cost) const {
  // Apart from the module's parameter, whose gradient hooks are for others.
  const Tensor encoder = filters_->weight.detach().requires_grad_();
  const Tensor decoder = filters_->weight.detach().requires_grad_();
  if (seen.size(0) == 0)
    return {torch::zeros_like(encoder).detach(),
            torch::zeros_like(decoder).detach()};
  const Tensor filtered = filters_->encode(seen, encoder);
  const Tensor error = decode(filtered, decoder) - seen;
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

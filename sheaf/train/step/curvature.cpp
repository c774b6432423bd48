#include "sheaf/train/step/curvature.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/data/dataset/random.hpp"
#include "sheaf/parallel/precision/precision_device.hpp"
#include "sheaf/train/checkpoint/kept_state.hpp"

namespace sheaf::train {
namespace {

using torch::Tensor;

// Extracts "aten::ctc" from "derivative for aten::ctc is not implemented";
// empty for other texts.
std::string operator_without_derivative(const std::string& text) {
  const std::string before = "derivative for ", after = " is not implemented";
  const std::size_t at = text.find(before);
  const std::size_t end = at == text.npos ? at : text.find(after, at);
  if (end == text.npos) return "";
  const std::size_t begin = at + before.size();
  return text.substr(begin, end - begin);
}

// libtorch reports operators without second derivatives in two forms: the one
// above, or a message that mentions double backward.
template <class Differentiate>
auto second_derivatives_of(Differentiate differentiate) {
  try {
    return differentiate();
  } catch (const std::exception& error) {
    const std::string text = error.what();
    const std::string name = operator_without_derivative(text);
    if (name.empty() && text.find("double backward") == text.npos) throw;
    throw UsageError(concat(
        "the curvature of the loss requires second derivatives, which libtorch "
        "lacks for ",
        name.empty() ? text.substr(0, text.find('\n')) : name,
        "; use another operator, or record without --curvature and plan with "
        "--indicator variance"));
  }
}

bool is_differentiable(const Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad();
}

Curvature mean_of(const std::vector<std::vector<double>>& products,
                  std::size_t weight) {
  const auto count = static_cast<double>(products.size());
  double sum = 0, square = 0;
  for (const auto& sample : products) sum += sample[weight];
  const double mean = sum / count;
  for (const auto& sample : products)
    square += (sample[weight] - mean) * (sample[weight] - mean);
  if (products.size() < 2) return {mean, 0};
  return {mean, std::sqrt(square / (count - 1) / count)};
}

}  // namespace

CurvatureSums::CurvatureSums(std::vector<Tensor> weights, int samples,
                             std::uint64_t seed)
    : weights_(std::move(weights)), seed_(seed) {
  SHEAF_CHECK(samples > 0,
              "the curvature of the loss cannot be estimated from ", samples,
              " samples; give 1 or more");
  products_.assign(static_cast<std::size_t>(samples),
                   std::vector<double>(weights_.size()));
}

// Returns the same signs for each part of the loss, on any device.
std::vector<Tensor> CurvatureSums::signs(std::size_t sample) const {
  const torch::NoGradGuard no_grad;
  const auto seed = data::Random(seed_).derive(sample).next();
  auto generator = at::detail::createCPUGenerator(seed);
  std::vector<Tensor> result;
  for (const Tensor& weight : weights_) {
    const Tensor zeros_and_ones =
        torch::empty(weight.sizes(), weight.scalar_type())
            .bernoulli_(0.5, generator);
    result.push_back(zeros_and_ones.mul_(2).sub_(1).to(weight.device()));
  }
  return result;
}

void CurvatureSums::add(const Tensor& loss) {
  if (weights_.empty()) return;
  const std::vector<Tensor> gradients = second_derivatives_of([&] {
    return torch::autograd::grad({loss}, weights_, /*grad_outputs=*/{},
                                 /*retain_graph=*/true, /*create_graph=*/true,
                                 /*allow_unused=*/true);
  });
  for (std::size_t i = 0; i < products_.size(); ++i)
    add_sample(i, gradients, i + 1 == products_.size());
}

void CurvatureSums::add_sample(std::size_t sample,
                               const std::vector<Tensor>& gradients,
                               bool is_last) {
  const std::vector<Tensor> vectors = signs(sample);
  // If no gradient depends on the weights, the loss is linear and Hv is 0.
  std::vector<Tensor> from, by;
  for (std::size_t i = 0; i < gradients.size(); ++i)
    if (is_differentiable(gradients[i])) {
      from.push_back(gradients[i]);
      by.push_back(vectors[i]);
    }
  if (from.empty()) return;
  const std::vector<Tensor> products = second_derivatives_of([&] {
    return torch::autograd::grad(from, weights_, by,
                                 /*retain_graph=*/!is_last,
                                 /*create_graph=*/false,
                                 /*allow_unused=*/true);
  });
  for (std::size_t i = 0; i < products.size(); ++i)
    if (products[i].defined())
      products_[sample][i] +=
          (vectors[i] * products[i]).sum(torch::kDouble).item<double>();
}

std::vector<Curvature> CurvatureSums::values() const {
  std::vector<Curvature> result;
  for (std::size_t i = 0; i < weights_.size(); ++i)
    result.push_back(mean_of(products_, i));
  return result;
}

std::vector<Curvature> mean_curvature(std::vector<Curvature> mine,
                                      const comm::Group& group) {
  std::vector<double> sums;
  for (const Curvature& one : mine) {
    sums.push_back(one.trace);
    sums.push_back(one.error * one.error);
  }
  comm::all_reduce(group, sums, {.name = "curvature"}).wait();
  const double ranks = group.size();
  for (std::size_t i = 0; i < mine.size(); ++i)
    mine[i] = {sums[2 * i] / ranks, std::sqrt(sums[2 * i + 1]) / ranks};
  return mine;
}

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

#pragma once
// Runs in which a loss or gradient is not finite in a given step.

#include <limits>

#include "sheaf/train/step/non_finite.hpp"
#include "tests/train/loop/runs.hpp"

namespace sheaf::train {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// The data of small_run(); the examples with these indices have a NaN.
class SpoilsExamples : public Slice {
 public:
  SpoilsExamples(std::shared_ptr<const data::Dataset> whole,
                 std::vector<std::int64_t> spoilt)
      : Slice(whole, 0, whole->size()), spoilt_(std::move(spoilt)) {}

  data::Batch get(std::span<const std::int64_t> indices,
                  data::Random& random) const override {
    return spoil(Slice::get(indices, random), indices);
  }
  data::Batch get_boxes(std::span<const std::int64_t> indices,
                        const data::Boxes& boxes,
                        data::Random& random) const override {
    return spoil(Slice::get_boxes(indices, boxes, random), indices);
  }

 private:
  data::Batch spoil(data::Batch batch,
                    std::span<const std::int64_t> indices) const {
    batch.data = batch.data.to(torch::kFloat) / 255;
    for (std::size_t i = 0; i < indices.size(); ++i)
      if (std::find(spoilt_.begin(), spoilt_.end(), indices[i]) !=
          spoilt_.end())
        batch.data[static_cast<std::int64_t>(i)].view(-1)[2] =
            std::numeric_limits<double>::quiet_NaN();
    return batch;
  }

  std::vector<std::int64_t> spoilt_;
};

inline DataSets spoilt_data(const RunConfig& config,
                            std::vector<std::int64_t> spoilt) {
  DataSets sets = open_data(config);
  sets.train = std::make_shared<SpoilsExamples>(sets.train, std::move(spoilt));
  return sets;
}

// Three layers; `fault` is applied between the first two in the n-th forward.
struct FaultyImpl : torch::nn::Module {
  using Fault = std::function<torch::Tensor(const torch::Tensor&)>;
  explicit FaultyImpl(Fault given, int number, bool has_norm = false)
      : fault(std::move(given)), forwards(number) {
    one = register_module("one", torch::nn::Linear(16, 8));
    if (has_norm) norm = register_module("norm", torch::nn::BatchNorm1d(8));
    two = register_module("two", torch::nn::Linear(8, 8));
    three = register_module("three", torch::nn::Linear(8, 3));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    ++count;
    torch::Tensor y = one(x.flatten(1));
    if (count == forwards || (forwards < 0 && count >= -forwards)) y = fault(y);
    if (norm) y = norm(y);
    return three(torch::relu(two(y)));
  }
  Fault fault;
  int forwards;
  int count = 0;
  torch::nn::Linear one{nullptr}, two{nullptr}, three{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};

inline Model faulty_model(FaultyImpl::Fault fault, int forwards,
                          bool has_norm = false) {
  torch::manual_seed(5);
  const auto net =
      std::make_shared<FaultyImpl>(std::move(fault), forwards, has_norm);
  return {net, [net](const torch::Tensor& x) { return net->forward(x); }};
}

// Applies the fault in every forward from the n-th on, so that repeating the
// step shows it.
inline Model lasting_fault(FaultyImpl::Fault fault, int forwards,
                           bool has_norm = false) {
  return faulty_model(std::move(fault), -forwards, has_norm);
}

// Three layers and two buffers: a mask with infinite values, as in attention,
// and one that becomes infinite in the n-th forward.
struct MaskedImpl : torch::nn::Module {
  explicit MaskedImpl(int number) : forwards(number) {
    one = register_module("one", torch::nn::Linear(16, 8));
    two = register_module("two", torch::nn::Linear(8, 3));
    mask = register_buffer("mask", torch::zeros({8}));
    mask[5] = -kInfinite;
    state = register_buffer("state", torch::zeros({2}));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    if (++count == forwards) state.fill_(kInfinite);
    return two((one(x.flatten(1)) + mask).softmax(1));
  }
  int forwards;
  int count = 0;
  torch::nn::Linear one{nullptr}, two{nullptr};
  torch::Tensor mask, state;
};

inline Model masked_model(int forwards = 0) {
  torch::manual_seed(5);
  const auto net = std::make_shared<MaskedImpl>(forwards);
  return {net, [net](const torch::Tensor& x) { return net->forward(x); }};
}

}  // namespace sheaf::train

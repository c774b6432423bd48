#pragma once
// Networks that cover all uses of weights that dAD must recognize. All take
// rows of 12 numbers and return 4.

#include "tests/parallel/common/training.hpp"

namespace sheaf::parallel::test {

struct PlainNetImpl : torch::nn::Module {
  explicit PlainNetImpl(bool has_bias) {
    const auto linear = [&](int in, int out) {
      return torch::nn::Linear(
          torch::nn::LinearOptions(in, out).bias(has_bias));
    };
    first = register_module("first", linear(12, 20));
    last = register_module("last", linear(20, 4));
  }
  at::Tensor forward(const at::Tensor& x) {
    return last(torch::tanh(first(x)));
  }
  torch::nn::Linear first{nullptr}, last{nullptr};
};

// One layer used twice, a parameter as left and as right factor, and one layer
// that some rows skip.
struct SharedNetImpl : torch::nn::Module {
  SharedNetImpl() {
    twice = register_module("twice", torch::nn::Linear(12, 12));
    left = register_parameter("left", torch::randn({8, 12}) * 0.3);
    right = register_parameter("right", torch::randn({8, 4}) * 0.3);
    rare = register_module("rare", torch::nn::Linear(12, 4));
    unused = register_module("unused", torch::nn::Linear(3, 3));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = torch::tanh(twice(torch::tanh(twice(x))));
    const at::Tensor z = torch::tanh(left.mm(y.t()).t()).mm(right);
    const at::Tensor rows = (x.select(1, 0) > 0.8).nonzero().squeeze(1);
    if (rows.numel() == 0) return z;
    return z.index_add(0, rows, rare(y.index_select(0, rows)));
  }
  torch::nn::Linear twice{nullptr}, rare{nullptr}, unused{nullptr};
  at::Tensor left, right;
};

// Three axes, recurrent cells and attention. The query differs from the key, so
// that slices of one parameter are factors.
struct SequenceNetImpl : torch::nn::Module {
  SequenceNetImpl() {
    widen = register_module("widen", torch::nn::Linear(4, 6));
    lstm = register_module(
        "lstm",
        torch::nn::LSTM(torch::nn::LSTMOptions(6, 6).batch_first(true)));
    gru = register_module("gru", torch::nn::GRUCell(6, 6));
    attention =
        register_module("attention", torch::nn::MultiheadAttention(6, 2));
    norm = register_module(
        "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({6})));
    last = register_module("last", torch::nn::Linear(6, 4));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor wide = widen(x.view({-1, 3, 4}));
    const at::Tensor seen = std::get<0>(lstm(wide)).transpose(0, 1);
    const at::Tensor query = wide.transpose(0, 1).slice(0, 0, 2);
    const at::Tensor mixed = std::get<0>(attention(query, seen, seen));
    const at::Tensor state = gru(mixed[0], mixed[1]);
    return last(norm(state));
  }
  torch::nn::Linear widen{nullptr}, last{nullptr};
  torch::nn::LSTM lstm{nullptr};
  torch::nn::GRUCell gru{nullptr};
  torch::nn::MultiheadAttention attention{nullptr};
  torch::nn::LayerNorm norm{nullptr};
};

// An embedding table that is also the weight of the last layer.
struct WordNetImpl : torch::nn::Module {
  WordNetImpl() {
    table = register_module(
        "table",
        torch::nn::Embedding(torch::nn::EmbeddingOptions(4, 5).padding_idx(1)));
    mix = register_module("mix", torch::nn::Linear(60, 5));
  }
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor words = (x * 1.5 + 2).clamp(0, 3).to(at::kLong);
    const at::Tensor y = torch::tanh(mix(table(words).flatten(1)));
    return y.mm(table->weight.t());
  }
  torch::nn::Embedding table{nullptr};
  torch::nn::Linear mix{nullptr};
};

}  // namespace sheaf::parallel::test

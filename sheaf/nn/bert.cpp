#include <torch/torch.h>

#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/nn/kinds.hpp"

// BERT for classification: token ids [batch, length] in, logits [batch,
// classes] out. Token, position and segment embeddings; `layers` blocks of
// self-attention and a two-layer feed-forward network, each followed by a
// residual connection and a LayerNorm; a tanh pooler on the first token; a
// linear classifier. Tokens equal to `pad` are masked. Parameter names are
// those of Hugging Face's BertForSequenceClassification.
namespace sheaf::nn {
namespace {

using torch::nn::Dropout;
using torch::nn::LayerNorm;
using torch::nn::Linear;

struct Sizes {
  std::int64_t vocabulary, hidden, layers, heads, intermediate, positions, pad;
  double dropout;
};

LayerNorm norm(std::int64_t hidden) {
  return LayerNorm(torch::nn::LayerNormOptions({hidden}).eps(1e-12));
}

class Embeddings : public torch::nn::Module {
 public:
  explicit Embeddings(const Sizes& sizes) {
    words_ =
        register_module("word_embeddings",
                        torch::nn::Embedding(torch::nn::EmbeddingOptions(
                                                 sizes.vocabulary, sizes.hidden)
                                                 .padding_idx(sizes.pad)));
    positions_ =
        register_module("position_embeddings",
                        torch::nn::Embedding(sizes.positions, sizes.hidden));
    kinds_ = register_module("token_type_embeddings",
                             torch::nn::Embedding(2, sizes.hidden));
    norm_ = register_module("LayerNorm", norm(sizes.hidden));
    dropout_ = register_module("dropout", Dropout(sizes.dropout));
  }

  at::Tensor forward(const at::Tensor& tokens) {
    const auto places = torch::arange(tokens.size(1), tokens.options());
    // The input is a single segment: all tokens are of type 0.
    const auto kind = kinds_->weight[0];
    return dropout_(norm_(words_(tokens) + positions_(places) + kind));
  }

 private:
  torch::nn::Embedding words_{nullptr}, positions_{nullptr}, kinds_{nullptr};
  LayerNorm norm_{nullptr};
  Dropout dropout_{nullptr};
};

class SelfAttention : public torch::nn::Module {
 public:
  explicit SelfAttention(const Sizes& sizes) : heads_(sizes.heads) {
    query_ = register_module("query", Linear(sizes.hidden, sizes.hidden));
    key_ = register_module("key", Linear(sizes.hidden, sizes.hidden));
    value_ = register_module("value", Linear(sizes.hidden, sizes.hidden));
    dropout_ = register_module("dropout", Dropout(sizes.dropout));
  }

  // `mask` is 0 where a token may be attended to, and -inf elsewhere.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) {
    const auto query = by_head(query_(x));
    const double scale = 1 / std::sqrt(static_cast<double>(query.size(3)));
    const auto scores =
        torch::matmul(query * scale, by_head(key_(x)).transpose(2, 3)) + mask;
    const auto weights = dropout_(torch::softmax(scores, -1));
    return torch::matmul(weights, by_head(value_(x)))
        .transpose(1, 2)
        .flatten(2);
  }

 private:
  // [batch, length, hidden] to [batch, heads, length, hidden / heads].
  at::Tensor by_head(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), heads_, -1}).transpose(1, 2);
  }

  std::int64_t heads_;
  Linear query_{nullptr}, key_{nullptr}, value_{nullptr};
  Dropout dropout_{nullptr};
};

// A linear layer, a residual connection and a LayerNorm.
class Output : public torch::nn::Module {
 public:
  Output(std::int64_t in, const Sizes& sizes) {
    dense_ = register_module("dense", Linear(in, sizes.hidden));
    norm_ = register_module("LayerNorm", norm(sizes.hidden));
    dropout_ = register_module("dropout", Dropout(sizes.dropout));
  }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& shortcut) {
    return norm_(dropout_(dense_(x)) + shortcut);
  }

 private:
  Linear dense_{nullptr};
  LayerNorm norm_{nullptr};
  Dropout dropout_{nullptr};
};

class Attention : public torch::nn::Module {
 public:
  explicit Attention(const Sizes& sizes) {
    self_ = register_module("self", std::make_shared<SelfAttention>(sizes));
    output_ = register_module("output",
                              std::make_shared<Output>(sizes.hidden, sizes));
  }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) {
    return output_->forward(self_->forward(x, mask), x);
  }

 private:
  std::shared_ptr<SelfAttention> self_;
  std::shared_ptr<Output> output_;
};

// A linear layer inside a named module: "intermediate.dense".
class Dense : public torch::nn::Module {
 public:
  Dense(std::int64_t in, std::int64_t out) {
    dense_ = register_module("dense", Linear(in, out));
  }
  at::Tensor forward(const at::Tensor& x) { return dense_(x); }

 private:
  Linear dense_{nullptr};
};

class BertBlock : public torch::nn::Module {
 public:
  explicit BertBlock(const Sizes& sizes) {
    attention_ =
        register_module("attention", std::make_shared<Attention>(sizes));
    intermediate_ = register_module(
        "intermediate",
        std::make_shared<Dense>(sizes.hidden, sizes.intermediate));
    output_ = register_module(
        "output", std::make_shared<Output>(sizes.intermediate, sizes));
  }

  at::Tensor forward(const at::Tensor& x, const at::Tensor& mask) {
    const auto attended = attention_->forward(x, mask);
    const auto wide = torch::gelu(intermediate_->forward(attended));
    return output_->forward(wide, attended);
  }

 private:
  std::shared_ptr<Attention> attention_;
  std::shared_ptr<Dense> intermediate_;
  std::shared_ptr<Output> output_;
};

class Encoder : public torch::nn::Module {
 public:
  explicit Encoder(const Sizes& sizes) {
    torch::nn::ModuleList list;
    for (std::int64_t i = 0; i < sizes.layers; ++i) {
      layers_.push_back(std::make_shared<BertBlock>(sizes));
      list->push_back(layers_.back());
    }
    register_module("layer", list);
  }

  at::Tensor forward(at::Tensor x, const at::Tensor& mask) {
    for (const auto& layer : layers_) x = layer->forward(x, mask);
    return x;
  }

 private:
  std::vector<std::shared_ptr<BertBlock>> layers_;
};

class Backbone : public torch::nn::Module {
 public:
  explicit Backbone(const Sizes& sizes) : pad_(sizes.pad) {
    embeddings_ =
        register_module("embeddings", std::make_shared<Embeddings>(sizes));
    encoder_ = register_module("encoder", std::make_shared<Encoder>(sizes));
    pooler_ = register_module(
        "pooler", std::make_shared<Dense>(sizes.hidden, sizes.hidden));
  }

  at::Tensor forward(const at::Tensor& tokens) {
    const auto embedded = embeddings_->forward(tokens);
    // The first token is never masked: softmax over a fully masked row would be
    // NaN.
    auto is_hidden = tokens.eq(pad_);
    is_hidden.select(1, 0).fill_(false);
    const auto mask = torch::zeros(tokens.sizes(), embedded.options())
                          .masked_fill(is_hidden, -INFINITY)
                          .unsqueeze(1)
                          .unsqueeze(1);
    const auto encoded = encoder_->forward(embedded, mask);
    return torch::tanh(pooler_->forward(encoded.select(1, 0)));
  }

 private:
  std::int64_t pad_;
  std::shared_ptr<Embeddings> embeddings_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Dense> pooler_;
};

class Bert : public Network {
 public:
  Bert(const Sizes& sizes, std::int64_t classes)
      : vocabulary_(sizes.vocabulary), positions_(sizes.positions) {
    bert_ = register_module("bert", std::make_shared<Backbone>(sizes));
    dropout_ = register_module("dropout", Dropout(sizes.dropout));
    classifier_ = register_module("classifier", Linear(sizes.hidden, classes));
    start(sizes.pad);
  }

  at::Tensor forward(at::Tensor input) override {
    SHEAF_CHECK(input.dim() == 2 && !input.is_floating_point(),
                "bert takes integers below ", vocabulary_,
                " of shape [batch, length], but got ", input.sizes(),
                " of type ", input.dtype().name());
    SHEAF_CHECK(input.size(1) >= 1 && input.size(1) <= positions_,
                "bert accepts sequences of 1 to ", positions_,
                " tokens, but got ", input.size(1),
                "; truncate them or raise the argument 'positions'");
    return classifier_(dropout_(bert_->forward(input.to(torch::kLong))));
  }

 private:
  void start(std::int64_t pad) {
    const torch::NoGradGuard no_grad;
    for (const auto& module : modules(/*include_self=*/false)) {
      if (auto* linear = module->as<torch::nn::LinearImpl>()) {
        torch::nn::init::normal_(linear->weight, 0, 0.02);
        torch::nn::init::zeros_(linear->bias);
      } else if (auto* table = module->as<torch::nn::EmbeddingImpl>()) {
        torch::nn::init::normal_(table->weight, 0, 0.02);
        if (table->options.padding_idx()) table->weight[pad].zero_();
      }
    }
  }

  std::int64_t vocabulary_, positions_;
  std::shared_ptr<Backbone> bert_;
  Dropout dropout_{nullptr};
  Linear classifier_{nullptr};
};

std::shared_ptr<Network> make_bert(const Arguments& arguments) {
  const Sizes sizes{.vocabulary = arguments.integer("vocabulary"),
                    .hidden = arguments.integer("hidden"),
                    .layers = arguments.integer("layers"),
                    .heads = arguments.integer("heads"),
                    .intermediate = arguments.integer("intermediate"),
                    .positions = arguments.integer("positions"),
                    .pad = arguments.integer("pad", /*least=*/0),
                    .dropout = arguments.probability("dropout")};
  if (sizes.hidden % sizes.heads != 0)
    arguments.refuse("heads", concat("a divisor of 'hidden', ", sizes.hidden));
  if (sizes.pad >= sizes.vocabulary)
    arguments.refuse("pad", concat("below 'vocabulary', ", sizes.vocabulary));
  return std::make_shared<Bert>(sizes, arguments.integer("classes"));
}

}  // namespace

NetworkKind bert_kind() {
  return {"bert-base",
          {{"classes", "2"},
           {"vocabulary", "30522"},
           {"hidden", "768"},
           {"layers", "12"},
           {"heads", "12"},
           {"intermediate", "3072"},
           {"positions", "512"},
           {"dropout", "0.1"},
           {"pad", "0"}},
          make_bert};
}

}  // namespace sheaf::nn

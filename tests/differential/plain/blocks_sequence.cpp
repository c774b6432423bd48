// Blocks on sequences, and conversions to and from them.

#include "plain/block.hpp"

namespace differential {
namespace {

struct Embedding : Block {
  Embedding(std::int64_t words, std::int64_t size, const Item& item) {
    torch::nn::EmbeddingOptions options(words, size);
    options.sparse(item.has("sparse"));
    if (item.has("padding")) options.padding_idx(1);
    table = register_module("table", torch::nn::Embedding(options));
  }
  at::Tensor run(const at::Tensor& x, const PassInputs&) override {
    return table(x);
  }
  torch::nn::Embedding table{nullptr};
};

BlockPointer embed(BlockPlan& plan) {
  require(plan.in.kind == Kind::kTokens, "embed needs tokens");
  const std::int64_t size = plan.item.get("out", 4);
  plan.out = {Kind::kSequence, {plan.in.sizes[0], size}};
  return std::make_shared<Embedding>(plan.item.get("words", 9), size,
                                     plan.item);
}

// The table is also the weight of a later layer.
struct TiedEmbedding : Block {
  TiedEmbedding(std::int64_t words, std::int64_t size) {
    table = register_module("table", torch::nn::Embedding(words, size));
  }
  at::Tensor run(const at::Tensor& x, const PassInputs&) override {
    return torch::linear(torch::tanh(table(x)), table->weight);
  }
  torch::nn::Embedding table{nullptr};
};

BlockPointer embed_tied(BlockPlan& plan) {
  require(plan.in.kind == Kind::kTokens, "embed_tied needs tokens");
  const std::int64_t words = plan.item.get("words", 9);
  plan.out = {Kind::kSequence, {plan.in.sizes[0], words}};
  return std::make_shared<TiedEmbedding>(words, plan.item.get("out", 4));
}

struct Recurrent : Block {
  Recurrent(std::int64_t in, std::int64_t out, std::int64_t cell) {
    using namespace torch::nn;
    if (cell == 0)
      lstm =
          register_module("cell", LSTM(LSTMOptions(in, out).batch_first(true)));
    else if (cell == 1)
      gru = register_module("cell", GRU(GRUOptions(in, out).batch_first(true)));
    else
      rnn = register_module("cell", RNN(RNNOptions(in, out).batch_first(true)));
  }
  at::Tensor run(const at::Tensor& x, const PassInputs&) override {
    if (lstm) return std::get<0>(lstm(x));
    return gru ? std::get<0>(gru(x)) : std::get<0>(rnn(x));
  }
  torch::nn::LSTM lstm{nullptr};
  torch::nn::GRU gru{nullptr};
  torch::nn::RNN rnn{nullptr};
};

BlockPointer recurrent(BlockPlan& plan) {
  require(plan.in.kind == Kind::kSequence, "recurrent needs a sequence");
  const std::int64_t out = plan.item.get("out", plan.in.features());
  plan.out = {Kind::kSequence, {plan.in.sizes[0], out}};
  return std::make_shared<Recurrent>(plan.in.features(), out,
                                     plan.item.get("cell"));
}

// The projections are slices of one parameter.
BlockPointer attention(BlockPlan& plan) {
  require(plan.in.kind == Kind::kSequence, "attention needs a sequence");
  plan.out = plan.in;
  const std::int64_t size = plan.in.features();
  return make_block(
      {{"in_weight", {3 * size, size}},
       {"in_bias", {3 * size}},
       {"out_weight", {size, size}}},
      [=](auto& x, auto& p, auto&) {
        const auto part = [&](std::int64_t i) {
          return torch::linear(x, p[0].narrow(0, i * size, size),
                               p[1].narrow(0, i * size, size));
        };
        const at::Tensor scores =
            torch::softmax(torch::matmul(part(0), part(1).transpose(1, 2)) /
                               std::sqrt(static_cast<double>(size)),
                           -1);
        return torch::linear(torch::matmul(scores, part(2)), p[2]);
      });
}

// With one row, the gradients of the position table and of the tensor that it
// is added to may share memory.
BlockPointer positions(BlockPlan& plan) {
  require(plan.in.kind == Kind::kSequence || plan.in.kind == Kind::kFlat,
          "positions needs features");
  plan.out = plan.in;
  return make_block({{"table", plan.in.sizes}}, [](auto& x, auto& p, auto&) {
    return x + p[0].unsqueeze(0);
  });
}

BlockPointer to_sequence(BlockPlan& plan) {
  const std::int64_t time = plan.item.get("time", 2);
  require(plan.in.kind == Kind::kFlat && plan.in.features() % time == 0,
          "to_sequence needs rows that divide");
  plan.out = {Kind::kSequence, {time, plan.in.features() / time}};
  const std::int64_t size = plan.out.features();
  return make_block([=](auto& x, auto&, auto&) {
    return x.reshape({x.size(0), time, size});
  });
}

BlockPointer last_of(BlockPlan& plan) {
  require(plan.in.kind == Kind::kSequence, "last needs a sequence");
  plan.out = {Kind::kFlat, {plan.in.features()}};
  return make_block([](auto& x, auto&, auto&) { return x.select(1, -1); });
}

BlockPointer mean_of(BlockPlan& plan) {
  require(plan.in.kind == Kind::kSequence || plan.in.kind == Kind::kImage,
          "mean needs a sequence or an image");
  if (plan.in.kind == Kind::kSequence) {
    plan.out = {Kind::kFlat, {plan.in.features()}};
    return make_block([](auto& x, auto&, auto&) { return x.mean(1); });
  }
  plan.out = {Kind::kFlat, {plan.in.sizes[0]}};
  std::vector<std::int64_t> axes;
  for (std::size_t i = 1; i < plan.in.sizes.size(); ++i)
    axes.push_back(static_cast<std::int64_t>(i) + 1);
  return make_block([=](auto& x, auto&, auto&) { return x.mean(axes); });
}

}  // namespace

void add_sequence_blocks(BlockTable& table) {
  table["embed"] = embed;
  table["embed_tied"] = embed_tied;
  table["recurrent"] = recurrent;
  table["attention"] = attention;
  table["positions"] = positions;
  table["to_sequence"] = to_sequence;
  table["last"] = last_of;
  table["mean"] = mean_of;
}

}  // namespace differential

#include "plain/network.hpp"

#include <algorithm>

#include "plain/checkpoint.hpp"
#include "plain/dice.hpp"
#include "plain/random_tensor.hpp"

namespace differential {
namespace {

const BlockTable& block_table() {
  static const BlockTable table = [] {
    BlockTable made;
    add_row_blocks(made);
    add_sequence_blocks(made);
    add_image_blocks(made);
    return made;
  }();
  return table;
}

BlockPointer make(const Item& item, const Shape& in, Shape& out) {
  const auto found = block_table().find(item.kind);
  require(found != block_table().end(), "no block is called " + item.kind);
  BlockPlan plan{item, in, {}};
  BlockPointer block = found->second(plan);
  out = plan.out;
  require(!item.has("twice") || in == out, "twice needs equal shapes");
  require(!item.has("residual") || in == out, "residual needs equal shapes");
  return block;
}

void add_alias(Block& block) {
  const auto parameters = block.parameters();
  require(!parameters.empty(), "alias needs a parameter");
  block.register_parameter("alias", parameters[0]);
}

void fill(torch::nn::Module& module, std::uint64_t seed) {
  const at::NoGradGuard no_grad;
  std::uint64_t number = 0;
  for (auto& entry : module.named_parameters()) {
    at::Tensor& value = entry.value();
    const double fan = value.dim() < 2 ? 100
                                       : static_cast<double>(value.numel()) /
                                             static_cast<double>(value.size(0));
    value.copy_(random_tensor(value.sizes(), mixed({seed, ++number})) /
                std::sqrt(fan));
    if (entry.key().find("norm") != std::string::npos &&
        entry.key().find("weight") != std::string::npos)
      value.add_(1);
  }
  for (auto& entry : module.named_buffers())
    if (entry.value().is_floating_point())
      entry.value().copy_(
          random_tensor(entry.value().sizes(), mixed({seed, ++number})).abs());
}

}  // namespace

bool is_planned(const std::exception& error) {
  return std::string(error.what()).find(Planned::kText) != std::string::npos;
}

Shape input_shape(const Case& one) {
  const Item& s = one.setting;
  const std::int64_t width = s.get("width", 4), time = s.get("time", 3);
  switch (s.get("input")) {
    case 1:
      return {Kind::kSequence, {time, width}};
    case 2:
      return {Kind::kTokens, {time}};
    case 3: {
      Shape shape{Kind::kImage, {s.get("channels", 1)}};
      for (const char* key : {"depth", "height"})
        if (s.has(key)) shape.sizes.push_back(s.get(key));
      shape.sizes.push_back(width);
      return shape;
    }
    default:
      return {Kind::kFlat, {width}};
  }
}

std::vector<Shape> shapes_of(const Case& one) {
  std::vector<Shape> shapes{input_shape(one)};
  for (const Item& item : one.blocks) {
    Shape out;
    make(item, shapes.back(), out);
    shapes.push_back(out);
  }
  return shapes;
}

std::int64_t words_of(const Case& one) {
  std::int64_t words = 9;
  for (const Item& item : one.blocks)
    if (item.kind == "embed" || item.kind == "embed_tied")
      words = std::min(words, item.get("words", 9));
  return words;
}

at::ScalarType type_of(const Case& one) {
  return one.setting.has("f32") ? at::kFloat : at::kDouble;
}

at::Device device_of(const Case& one) {
  return one.setting.has("cuda") ? at::kCUDA : at::kCPU;
}

Net::Net(const Case& one, std::uint64_t weights_seed)
    : items_(one.blocks), input_(input_shape(one)) {
  Shape shape = input_;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const Shape in = shape;
    blocks_.push_back(make(items_[i], in, shape));
    if (items_[i].has("alias")) add_alias(*blocks_.back());
    register_module("l" + std::to_string(i), blocks_.back());
  }
  require(shape.kind != Kind::kTokens, "the network gives tokens");
  require(!parameters().empty(), "the network has no parameters");
  to(at::kDouble);
  fill(*this, weights_seed);
  to(device_of(one), type_of(one));
  for (std::size_t i = 0; i < items_.size(); ++i)
    if (items_[i].has("frozen"))
      freeze(static_cast<std::int64_t>(i) + 1, true);
    else
      add_hooks(one, i);
}

// A hook that throws exists from the start, but only if a step requests it,
// because hooks on parameters change the behavior of strategies.
void Net::add_hooks(const Case& one, std::size_t index) {
  const auto parameters = blocks_[index]->parameters();
  if (items_[index].has("parameter_hook"))
    for (const at::Tensor& parameter : parameters)
      parameter.register_hook([](at::Tensor gradient) { return gradient * 2; });
  const auto number = static_cast<std::int64_t>(index) + 1;
  const bool throws = std::any_of(
      one.steps.begin(), one.steps.end(),
      [&](const Item& step) { return step.get("throw_parameter") == number; });
  if (!throws || parameters.empty()) return;
  parameters[0].register_hook([this, number](at::Tensor gradient) {
    if (throws_.parameter == number) throw Planned();
    return gradient;
  });
}

void Net::freeze(std::int64_t block, bool is_frozen) {
  const auto index = static_cast<std::size_t>(block - 1);
  require(index < blocks_.size(), "there is no such block to freeze");
  for (at::Tensor& parameter : blocks_[index]->parameters()) {
    parameter.set_requires_grad(!is_frozen);
    if (is_frozen) parameter.mutable_grad().reset();
  }
}

at::Tensor Net::run(std::size_t index, const at::Tensor& x,
                    const PassInputs& inputs) {
  Block& block = *blocks_[index];
  const auto call = [&](const at::Tensor& given) {
    if (!items_[index].has("checkpoint") || !at::GradMode::is_enabled())
      return block.run(given, inputs);
    return checkpoint(
        given, [pointer = blocks_[index], inputs](const at::Tensor& saved) {
          return pointer->run(saved, inputs);
        });
  };
  at::Tensor y = call(x);
  if (items_[index].has("twice")) y = call(torch::tanh(y));
  return items_[index].has("residual") ? x + y : y;
}

std::vector<at::Tensor> Net::forward(const at::Tensor& x,
                                     const std::vector<at::Tensor>& more) {
  kept_.clear();
  const PassInputs inputs{more, casts_};
  std::vector<at::Tensor> outputs;
  at::Tensor y = x;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const auto number = static_cast<std::int64_t>(i) + 1;
    if (throws_.forward == number) throw Planned();
    y = run(i, y, inputs);
    const bool has_gradient = y.requires_grad();
    if (throws_.backward == number && has_gradient)
      y.register_hook([this, number](at::Tensor gradient) {
        if (throws_.backward == number) throw Planned();
        return gradient;
      });
    if (items_[i].has("hook") && has_gradient)
      y.register_hook([](at::Tensor gradient) { return gradient * 0.5; });
    if (items_[i].has("keep")) kept_.push_back(y);
    if (items_[i].has("output") && i + 1 < blocks_.size()) outputs.push_back(y);
  }
  outputs.push_back(y);
  return outputs;
}

}  // namespace differential

#include <torch/torch.h>

#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/nn/kinds.hpp"
#include "sheaf/nn/layer.hpp"

// Networks from a list of layers. Each layer is built for the output shape of
// the layers before it, which is found by running one sample of zeros through
// them. `add` and `concat` are shortcuts: they combine the output of an earlier
// layer with that of the previous one.
namespace sheaf::nn {
namespace {

constexpr std::string_view kAdd = "add";
constexpr std::string_view kConcat = "concat";

std::vector<LayerKind> make_layer_kinds() {
  std::vector<LayerKind> kinds;
  for (const auto& more : {weighted_layers(), norm_layers(), plain_layers()})
    kinds.insert(kinds.end(), more.begin(), more.end());
  const std::vector<ArgumentSpec> from{{"from", kRequired}};
  kinds.push_back({kAdd, from, nullptr});
  kinds.push_back({kConcat, from, nullptr});
  return kinds;
}

const std::vector<LayerKind>& layer_kinds() {
  static const std::vector<LayerKind> kinds = make_layer_kinds();
  return kinds;
}

const LayerKind& layer_kind_of(const std::string& type,
                               const std::string& where) {
  std::vector<std::string_view> names;
  for (const LayerKind& kind : layer_kinds()) {
    if (kind.name == type) return kind;
    names.push_back(kind.name);
  }
  throw UsageError(concat(where, "unknown layer '", type, "'",
                          did_you_mean(type, names),
                          "; allowed: ", join(names, ", ")));
}

struct Step {
  Layer layer;                       // empty for a shortcut
  std::optional<std::size_t> other;  // shortcut: the step to combine with
  bool is_concat = false;
};

class Layered : public Network {
 public:
  Layered(const std::vector<LayerSpec>& specs, const Arguments& arguments) {
    if (arguments.text("input") != kInferred)
      shape_ = arguments.integers("input");
    for (std::size_t i = 0; i < specs.size(); ++i) add(i, specs[i]);
    outputs_ = {};
  }

  at::Tensor forward(at::Tensor input) override {
    std::vector<at::Tensor> outputs(steps_.size());
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      input = apply(steps_[i], input, outputs);
      if (is_joined_.count(i)) outputs[i] = input;
    }
    return input;
  }

 private:
  void add(std::size_t index, const LayerSpec& spec) {
    const auto where = concat("layer ", index, ": ");
    const LayerKind& kind = layer_kind_of(spec.type, where);
    const Arguments arguments(concat("layer ", index, " (", spec.type, ")"),
                              kind.arguments, spec.arguments);
    Step step;
    if (kind.make)
      step.layer = kind.make(arguments, shape_);
    else
      step = shortcut(index, arguments, kind.name == kConcat);
    if (step.layer.module)
      register_module(std::to_string(index), step.layer.module);
    steps_.push_back(step);
    follow(arguments, spec.type == "embedding");
  }

  // `from` is the index of a layer; negative: relative to this one.
  Step shortcut(std::size_t index, const Arguments& arguments, bool is_concat) {
    const auto from =
        arguments.integer("from", -static_cast<std::int64_t>(index));
    const auto other =
        from < 0 ? static_cast<std::int64_t>(index) + from : from;
    if (other >= static_cast<std::int64_t>(index))
      arguments.refuse("from", concat("a layer before ", index));
    is_joined_.insert(static_cast<std::size_t>(other));
    Step step;
    step.other = static_cast<std::size_t>(other);
    step.is_concat = is_concat;
    return step;
  }

  static at::Tensor apply(Step& step, const at::Tensor& input,
                          const std::vector<at::Tensor>& outputs) {
    if (!step.other) return step.layer.forward(input);
    const at::Tensor& other = outputs[*step.other];
    return step.is_concat ? torch::cat({other, input}, 1) : input + other;
  }

  // Runs the sample of zeros through the last step.
  void follow(const Arguments& arguments, bool is_of_tokens) {
    if (!shape_) {
      outputs_.emplace_back();
      return;
    }
    std::vector<std::int64_t> shape = *shape_;
    shape.insert(shape.begin(), 1);
    const torch::NoGradGuard no_grad;
    const auto zeros =
        torch::zeros(shape, is_of_tokens ? torch::kLong : torch::kFloat);
    Step& step = steps_.back();
    // In eval mode, so that the sample does not change running statistics.
    if (step.layer.module) step.layer.module->eval();
    try {
      outputs_.push_back(apply(step, zeros, outputs_));
    } catch (const c10::Error& error) {
      throw UsageError(concat(arguments.owner(), " does not fit samples of ",
                              at::IntArrayRef(*shape_), ": ", one_line(error)));
    }
    if (step.layer.module) step.layer.module->train();
    shape_ = outputs_.back().sizes().slice(1).vec();
  }

  std::vector<Step> steps_;
  std::set<std::size_t> is_joined_;  // steps whose outputs shortcuts use
  SampleShape shape_;                // output shape so far, during construction
  std::vector<at::Tensor> outputs_;  // for the sample of zeros
};

}  // namespace

std::int64_t inferred_size(const Arguments& arguments, std::string_view name,
                           const SampleShape& input, std::int64_t axis) {
  if (const auto given = arguments.inferred(name)) return *given;
  SHEAF_CHECK(input, arguments.owner(), " needs '", name,
              "', or the network's argument 'input', the shape of a sample "
              "such as 1x28x28, to infer it");
  const auto count = static_cast<std::int64_t>(input->size());
  const std::int64_t place = axis < 0 ? count + axis : axis;
  SHEAF_CHECK(place >= 0 && place < count, arguments.owner(),
              " does not fit samples of ", at::IntArrayRef(*input));
  return (*input)[static_cast<std::size_t>(place)];
}

std::vector<ArgumentSpec> layered_arguments() { return {{"input", kInferred}}; }

std::shared_ptr<Network> make_layered(const std::vector<LayerSpec>& layers,
                                      const Arguments& arguments) {
  return std::make_shared<Layered>(layers, arguments);
}

std::vector<std::string> layer_names() {
  std::vector<std::string> names;
  for (const LayerKind& kind : layer_kinds()) names.emplace_back(kind.name);
  return names;
}

std::map<std::string, std::string> layer_defaults(const std::string& type) {
  std::map<std::string, std::string> defaults;
  for (const ArgumentSpec& spec : layer_kind_of(type, "").arguments)
    defaults.emplace(spec.name, spec.fallback);
  return defaults;
}

}  // namespace sheaf::nn

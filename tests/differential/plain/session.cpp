#include "plain/session.hpp"

#include <algorithm>

#include "plain/autocast.hpp"
#include "plain/random_tensor.hpp"

namespace differential {
namespace {

std::string step_name(std::size_t step) {
  return "step " + std::to_string(step) + ", ";
}
std::string model_name(std::size_t model) {
  return model == 0 ? "" : "model " + std::to_string(model) + ", ";
}

at::Tensor mean_square(const at::Tensor& x) {
  return x.square().sum() /
         static_cast<double>(std::max<std::int64_t>(1, x.numel()));
}

// Repeats the first `distinct` rows.
at::Tensor repeated_rows(const at::Tensor& x, std::int64_t distinct) {
  const std::int64_t rows = x.size(0);
  if (rows == 0) return x;
  return x.index_select(
      0, torch::arange(rows, x.options().dtype(at::kLong).requires_grad(false))
             .remainder(std::min(distinct, rows)));
}

// A parameter with two names is updated once.
std::vector<at::Tensor> without_repeats(const std::vector<at::Tensor>& list) {
  std::vector<at::Tensor> result;
  for (const at::Tensor& one : list)
    if (std::none_of(
            result.begin(), result.end(),
            [&](const at::Tensor& other) { return other.is_same(one); }))
      result.push_back(one);
  return result;
}

std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    std::int64_t kind, std::vector<at::Tensor> parameters) {
  using namespace torch::optim;
  if (kind == 1)
    return std::make_unique<SGD>(std::move(parameters),
                                 SGDOptions(kLearningRate).momentum(0.9));
  // A large eps, so that gradients that are 0 up to rounding are not amplified.
  if (kind == 2)
    return std::make_unique<Adam>(std::move(parameters),
                                  AdamOptions(kLearningRate).eps(1e-2));
  return std::make_unique<SGD>(std::move(parameters),
                               SGDOptions(kLearningRate));
}

}  // namespace

Session::Session(const Case& one, int unit, int weights_of)
    : case_(one), unit_(unit) {
  for (std::int64_t i = 0; i < one.setting.get("models", 1); ++i)
    nets_.push_back(std::make_shared<Net>(
        one, mixed({one.seed(), static_cast<std::uint64_t>(i),
                    static_cast<std::uint64_t>(weights_of), 1})));
  forward_ = [this](std::size_t model, const Input& input) {
    return nets_[model]->forward(input.x, input.more);
  };
  whole_ = [](const at::Tensor& x) { return x; };
}

void Session::make_optimizers() {
  for (const auto& net : nets_)
    optimizers_.push_back(make_optimizer(case_.setting.get("optimizer"),
                                         without_repeats(net->parameters())));
}

Input Session::input_of(std::size_t step, int pass, std::size_t model) const {
  const Item& item = case_.steps[step];
  const std::uint64_t seed =
      mixed({case_.seed(), step, static_cast<std::uint64_t>(pass), model,
             static_cast<std::uint64_t>(unit_), 2});
  std::vector<std::int64_t> sizes = nets_[model]->input().sizes;
  sizes.insert(sizes.begin(), rows_of(item, unit_));
  const auto device = device_of(case_);
  Input input;
  if (nets_[model]->input().kind == Kind::kTokens)
    input.x = random_words(sizes, words_of(case_), seed).to(device);
  else
    input.x = random_tensor(sizes, seed).to(device, type_of(case_));
  if (item.has("distinct"))
    input.x = repeated_rows(input.x, item.get("distinct"));
  if (case_.setting.has("second"))
    input.more.push_back(
        random_tensor({sizes[0], case_.setting.get("second")}, mixed({seed, 3}))
            .to(device, type_of(case_)));
  if (item.has("gradient_penalty")) input.x.set_requires_grad(true);
  return input;
}

at::Tensor Session::loss_of(std::size_t step, int pass, std::size_t model,
                            const Input& input, const Outputs& outputs,
                            const std::vector<at::Tensor>& kept) const {
  const Item& item = case_.steps[step];
  at::Tensor loss;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const at::Tensor target =
        random_tensor(outputs[i].sizes(),
                      mixed({case_.seed(), step, model, i,
                             static_cast<std::uint64_t>(pass),
                             static_cast<std::uint64_t>(unit_), 4}))
            .to(outputs[i].device(), type_of(case_));
    const at::Tensor part = mean_square(outputs[i] - target);
    loss = loss.defined() ? loss + part : part;
  }
  if (item.has("gradient_penalty")) {
    at::Tensor sum = outputs[0].sum();
    const at::Tensor gradient =
        torch::autograd::grad({sum}, {input.x}, {}, true, true)[0];
    loss = loss + 0.1 * mean_square(gradient);
  }
  if (weight_ != 1) loss = loss * weight_;
  const double penalty =
      static_cast<double>(case_.setting.get("penalty", 1000)) * 1e-6;
  for (const at::Tensor& hidden : kept)
    loss = loss + penalty * mean_square(hidden);
  if (case_.setting.has("decay"))
    for (const at::Tensor& parameter : nets_[model]->parameters())
      loss = loss + 1e-2 * parameter.square().sum();
  if (case_.setting.has("scaled"))
    loss =
        loss * (static_cast<double>(rows_of(item, unit_) * unit_count(case_)) /
                static_cast<double>(
                    std::max<std::int64_t>(1, rows_of_all(case_, item))));
  if (item.has("not_finite") && unit_ == 0)
    loss = loss * std::numeric_limits<double>::infinity();
  return loss;
}

void Session::add_output(const std::string& name, const Outputs& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i)
    record_.push_back({name + "output " + std::to_string(i),
                       whole_(outputs[i]).detach().clone()});
}

void Session::add_output(std::size_t step, int pass, std::size_t model,
                         const Outputs& outputs) {
  add_output(step_name(step) + model_name(model) + "pass " +
                 std::to_string(pass) + ", ",
             outputs);
}

// `draw` distinguishes two forwards of one pass.
at::Tensor Session::forward_loss(std::size_t step, int pass, std::size_t model,
                                 int draw) {
  const int number = pass + 100 * draw;
  Input input = input_of(step, number, model);
  if (draw == 1 && case_.steps[step].get("two_forwards") == 2)
    input.x = input.x + chained_.to(input.x.scalar_type());
  const Autocast autocast(device_of(case_).type(),
                          case_.setting.has("autocast"));
  const Outputs outputs = forward_(model, input);
  chained_ = outputs[0].sum() /
             static_cast<double>(std::max<std::int64_t>(1, outputs[0].numel()));
  add_output(step, number, model, outputs);
  return loss_of(step, number, model, input, outputs, nets_[model]->kept());
}

// A user who keeps the graph may continue after an exception: without
// gradients, and with the same graph.
void Session::backward(const Item& step, int pass, const at::Tensor& loss) {
  for (int left = step.has("retain") ? 1 : 0; left >= 0; --left) {
    try {
      loss.backward({}, /*retain_graph=*/left > 0 || step.has("retry"));
    } catch (const std::exception& error) {
      if (!is_planned(error) || !step.has("retry")) throw;
      ++retries_;
      drop_gradients(step.has("given"));
      for (const auto& net : nets_) net->throw_at({});
      loss.backward({}, /*retain_graph=*/left > 0);
    }
    if (is_synced(step, pass)) after_backward_();
  }
}

std::vector<at::Tensor> Session::losses_of(std::size_t step, int pass,
                                           std::size_t model) {
  const Item& item = case_.steps[step];
  const at::Tensor first = forward_loss(step, pass, model, 0);
  if (item.has("two_forwards"))
    return {first + forward_loss(step, pass, model, 1)};
  if (!item.has("two_graphs")) return {first};
  const at::Tensor second = forward_loss(step, pass, model, 1);
  if (item.get("two_graphs") == 1) return {first, second};
  return {second, first};
}

void Session::begin_pass(const Item& step, int pass) {
  for (const auto& net : nets_) {
    net->throw_at({});
    if (is_synced(step, pass))
      net->throw_at({step.get("throw_forward"), step.get("throw_backward"),
                     step.get("throw_parameter")});
    // Gradients of passes without exchange stay, for other blocks.
    if (step.has("freeze_late") && pass == step.get("no_sync"))
      net->freeze(step.get("freeze_late"), true);
  }
}

bool Session::pass(std::size_t step, int pass) {
  const Item& item = case_.steps[step];
  begin_pass(item, pass);
  try {
    at::Tensor sum;
    for (std::size_t model = 0; model < nets_.size(); ++model)
      for (const at::Tensor& loss : losses_of(step, pass, model)) {
        if (!item.has("joint")) backward(item, pass, loss);
        sum = sum.defined() ? sum + loss : loss;
      }
    if (item.has("joint")) backward(item, pass, sum);
  } catch (const std::exception& error) {
    if (!is_planned(error)) throw;
    return false;
  }
  return true;
}

void Session::evaluate(std::size_t step) {
  const at::NoGradGuard no_grad;
  for (std::size_t model = 0; model < nets_.size(); ++model) {
    nets_[model]->eval();
    nets_[model]->throw_at({});
    const Input input = input_of(step, 50, model);
    const Autocast autocast(device_of(case_).type(),
                            case_.setting.has("autocast"));
    add_output(step_name(step) + model_name(model) + "evaluation, ",
               forward_(model, input));
    nets_[model]->train();
  }
}

// Converts to another type and back, like a user who saves memory between two
// phases.
void Session::convert() {
  const auto other = type_of(case_) == at::kDouble ? at::kFloat : at::kDouble;
  for (const auto& net : nets_) {
    net->to(other);
    net->to(type_of(case_));
  }
}

void Session::drop_gradients(bool sets_to_zero) {
  for (const auto& net : nets_)
    for (at::Tensor& parameter : net->parameters()) {
      at::Tensor& gradient = parameter.mutable_grad();
      if (sets_to_zero && gradient.defined() && !gradient.is_sparse())
        (gradient.is_view() ? gradient : gradient.detach_()).zero_();
      else
        gradient.reset();
    }
}

// As views of one buffer per model, as used by fused optimizers.
void Session::give_gradients() {
  for (const auto& net : nets_) {
    std::int64_t size = 0;
    for (const at::Tensor& one : net->parameters()) size += one.numel();
    const at::Tensor buffer = torch::zeros(
        {size}, net->parameters().at(0).options().requires_grad(false));
    std::int64_t place = 0;
    for (at::Tensor& one : net->parameters()) {
      at::Tensor& given = given_[one.unsafeGetTensorImpl()];
      if (given.defined()) continue;  // already done, under another name
      given = buffer.narrow(0, place, one.numel()).view(one.sizes());
      place += one.numel();
      one.mutable_grad() = given;
    }
  }
}

void Session::prepare(std::size_t step) {
  const Item& item = case_.steps[step];
  given_.clear();
  drop_gradients(item.has("zero"));
  for (const auto& net : nets_) {
    if (item.has("freeze")) net->freeze(item.get("freeze"), true);
    if (item.has("unfreeze")) net->freeze(item.get("unfreeze"), false);
  }
  if (item.has("to")) {
    drop_gradients(false);
    convert();
  }
  if (item.has("evaluate")) evaluate(step);
  if (item.has("forward_only"))
    for (std::size_t model = 0; model < nets_.size(); ++model) {
      nets_[model]->throw_at({});
      const Autocast autocast(device_of(case_).type(),
                              case_.setting.has("autocast"));
      add_output(step_name(step) + model_name(model) + "forward alone, ",
                 forward_(model, input_of(step, 60, model)));
    }
  if (item.has("given")) give_gradients();
}

bool Session::is_finite() const {
  for (const auto& net : nets_)
    for (const at::Tensor& parameter : net->parameters()) {
      const at::Tensor& gradient = parameter.grad();
      if (gradient.defined() &&
          !(gradient.is_sparse() ? gradient.to_dense() : gradient)
               .isfinite()
               .all()
               .item<bool>())
        return false;
    }
  return true;
}

void Session::note_weights(const std::string& prefix) {
  for (std::size_t model = 0; model < nets_.size(); ++model) {
    for (const auto& entry : nets_[model]->named_parameters())
      record_.push_back({prefix + model_name(model) + "weight " + entry.key(),
                         entry.value().detach().clone()});
    for (const auto& entry : nets_[model]->named_buffers())
      record_.push_back({prefix + model_name(model) + "buffer " + entry.key(),
                         entry.value().detach().clone()});
  }
}

void Session::note_gradients(std::size_t step) {
  for (std::size_t model = 0; model < nets_.size(); ++model)
    for (const auto& entry : nets_[model]->named_parameters()) {
      const auto given = given_.find(entry.value().unsafeGetTensorImpl());
      const at::Tensor& gradient =
          given == given_.end() || !entry.value().grad().defined()
              ? entry.value().grad()
              : given->second;
      at::Tensor noted;
      if (gradient.defined())
        noted = gradient.is_sparse() ? gradient.to_dense()
                                     : gradient.detach().clone();
      record_.push_back(
          {step_name(step) + model_name(model) + "gradient " + entry.key(),
           noted});
    }
}

void Session::finish(std::size_t step, bool is_broken) {
  if (is_broken) {
    drop_gradients(false);
    return note_weights(step_name(step));
  }
  const bool skips = !is_finite();
  record_.push_back({step_name(step) + "gradients are finite",
                     torch::tensor(skips ? 0.0 : 1.0)});
  if (skips) {
    drop_gradients(false);
    return note_weights(step_name(step));
  }
  note_gradients(step);
  for (const auto& optimizer : optimizers_) optimizer->step();
  note_weights(step_name(step));
}

void Session::finish_all() { note_weights("end, "); }

}  // namespace differential

#include "plain/reference.hpp"

#include <set>
#include <utility>

#include "plain/average.hpp"
#include "plain/reference_joint.hpp"
#include "plain/weighted.hpp"

namespace differential {
namespace {

// The buffers of the source unit before each forward of a phase.
class BufferSource {
 public:
  explicit BufferSource(bool is_on) : is_on_(is_on) {}
  void start(bool is_synced) {
    is_synced_ = is_synced;
    snapshots_.clear();
  }
  // Each unit runs the same forward passes in the same order.
  void start_unit(bool is_source) {
    is_source_ = is_source;
    next_ = 0;
  }
  void before_forward(torch::nn::Module& net) {
    if (!is_on_ || !is_synced_) return;
    const at::NoGradGuard no_grad;
    if (is_source_) {
      snapshots_.emplace_back();
      for (const at::Tensor& buffer : net.buffers())
        snapshots_.back().push_back(buffer.clone());
      return;
    }
    const auto& given = snapshots_.at(next_++);
    auto buffers = net.buffers();
    // Does not increment versions, like the writes of batch normalization to
    // its running statistics: a graph that has saved them can still be used.
    const at::AutoDispatchBelowADInplaceOrView below_versions;
    for (std::size_t i = 0; i < buffers.size(); ++i) buffers[i].copy_(given[i]);
  }

 private:
  bool is_on_;
  bool is_synced_ = true;
  bool is_source_ = true;
  std::size_t next_ = 0;
  std::vector<std::vector<at::Tensor>> snapshots_;
};

// Names of parameters, each with the first name of the same parameter.
std::vector<std::pair<std::string, std::string>> names_of(const Net& net) {
  std::map<const void*, std::string> first;
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& entry : net.named_parameters())
    names.emplace_back(
        entry.key(),
        first.emplace(entry.value().unsafeGetTensorImpl(), entry.key())
            .first->second);
  return names;
}

at::Tensor parameter_of(const Session& unit, std::size_t model,
                        const std::string& name) {
  return unit.net(model)->named_parameters()[name];
}

// libtorch may let two gradients share memory, so that a second backward() adds
// to each of them twice. Exchanged gradients have separate memory, or the
// memory that the program has provided.
void separate_gradients(const Session& unit) {
  for (std::size_t model = 0; model < unit.models(); ++model)
    for (const at::Tensor& parameter : unit.net(model)->parameters())
      if (parameter.grad().defined() && !unit.has_given(parameter))
        parameter.mutable_grad() = parameter.grad().clone();
}

std::string model_prefix(std::size_t model) {
  return model == 0 ? "" : "model " + std::to_string(model) + ", ";
}

class Reference {
 public:
  explicit Reference(const Case& one);
  std::vector<Record> run(const std::vector<Record>& tested);

 private:
  Session::Outputs forward(Session& session, std::size_t model,
                           const Input& input);
  void add_magnitudes(Session& unit);
  void take_step(std::size_t step);
  void each_active(std::size_t step, bool is_synced,
                   const std::function<void(Session&)>& action);
  void combine(std::size_t step);
  void combine(std::size_t model, const std::vector<Session*>& active,
               int divisor);
  void finish_step(std::size_t step, bool is_broken);
  void add_slacks(Session& unit, std::size_t from, const std::string& prefix);
  void start_from(const Record& found, std::size_t step);
  std::size_t last_unit() const;
  void end_join();

  Case case_;
  std::vector<std::unique_ptr<Session>> units_;
  Average average_;
  BufferSource buffers_;
  std::vector<double> output_weights_;  // of this step, with autocast
  // By model and name; set by the exchanges of this step.
  std::map<std::pair<std::size_t, std::string>, Averaged> averages_;
  std::map<std::pair<std::size_t, std::string>, std::size_t> numbers_;
  // Since the last exchange, over the units.
  std::map<std::pair<std::size_t, std::string>, at::Tensor> magnitudes_;
};

Reference::Reference(const Case& one)
    : case_(one), average_(one), buffers_(!one.setting.has("keeps_buffers")) {
  for (int unit = 0; unit < unit_count(one); ++unit) {
    units_.push_back(std::make_unique<Session>(one, unit, /*weights_of=*/0));
    Session& session = *units_.back();
    session.set_forward([this, &session](std::size_t model, const Input& x) {
      return forward(session, model, x);
    });
    session.make_optimizers();
    if (one.ranks() > 1)
      session.set_after_backward([this, &session] {
        separate_gradients(session);
        add_magnitudes(session);
      });
    for (std::size_t model = 0; model < session.models(); ++model)
      session.net(model)->set_casts(one.setting.kind == "plan");
  }
  for (std::size_t model = 0; model < units_[0]->models(); ++model) {
    std::size_t number = 0;
    for (const auto& [name, first] : names_of(*units_[0]->net(model)))
      if (name == first &&
          parameter_of(*units_[0], model, name).requires_grad())
        numbers_[{model, name}] = number++;
  }
}

void Reference::add_magnitudes(Session& unit) {
  for (std::size_t model = 0; model < unit.models(); ++model)
    for (const auto& entry : unit.net(model)->named_parameters()) {
      const at::Tensor& gradient = entry.value().grad();
      if (!gradient.defined() || gradient.scalar_type() != at::kFloat) continue;
      at::Tensor& sum = magnitudes_[{model, entry.key()}];
      const at::Tensor dense =
          gradient.is_sparse() ? gradient.to_dense() : gradient;
      const at::Tensor one = dense.to(at::kDouble).abs();
      sum = sum.defined() ? sum + one : one;
    }
}

Session::Outputs Reference::forward(Session& session, std::size_t model,
                                    const Input& input) {
  Net& net = *session.net(model);
  buffers_.before_forward(net);
  return weighted(net.forward(input.x, input.more),
                  output_weights_[static_cast<std::size_t>(session.unit())]);
}

void Reference::each_active(std::size_t step, bool is_synced,
                            const std::function<void(Session&)>& action) {
  buffers_.start(is_synced);
  bool is_first = true;
  for (const auto& unit : units_) {
    if (step >= steps_of(case_, unit->unit())) continue;
    buffers_.start_unit(std::exchange(is_first, false));
    action(*unit);
  }
}

void Reference::combine(std::size_t step) {
  std::vector<Session*> active;
  each_active(step, true, [&](Session& unit) { active.push_back(&unit); });
  // A single rank exchanges nothing: its gradients stay as libtorch made them,
  // which may be two tensors with shared memory.
  if (active.empty() || units_.size() == 1) return;
  const int divisor = static_cast<int>(
      case_.setting.has("active_only") ? active.size() : units_.size());
  for (std::size_t model = 0; model < units_[0]->models(); ++model)
    combine(model, active, divisor);
}

void Reference::combine(std::size_t model, const std::vector<Session*>& active,
                        int divisor) {
  average_.begin(model);
  for (const auto& [name, first] : names_of(*active[0]->net(model))) {
    if (name != first) {
      averages_[{model, name}] = averages_[{model, first}];
      continue;
    }
    std::vector<at::Tensor> gradients;
    bool is_used = false;
    for (Session* unit : active) {
      gradients.push_back(parameter_of(*unit, model, name).grad());
      is_used = is_used || gradients.back().defined();
    }
    // Units without data have the average before this pass.
    const at::Tensor earlier = averages_[{model, name}].value;
    if (earlier.defined() && divisor > static_cast<int>(active.size()))
      for (std::size_t i = active.size(); i < units_.size(); ++i)
        gradients.push_back(earlier);
    const auto number = numbers_.find({model, name});
    if (!is_used && number == numbers_.end()) continue;
    const Averaged result = average_.average(
        {model, number == numbers_.end() ? 1000 : number->second,
         parameter_of(*active[0], model, name), gradients, divisor,
         averages_[{model, name}].slack,
         std::exchange(magnitudes_[{model, name}], {})});
    if (!is_used) continue;
    averages_[{model, name}] = result;
    for (Session* unit : active) {
      at::Tensor parameter = parameter_of(*unit, model, name);
      if (unit->has_given(parameter))
        parameter.mutable_grad().copy_(result.value);
      else
        parameter.mutable_grad() = result.value.clone();
    }
  }
}

void Reference::take_step(std::size_t step) {
  const Item& item = case_.steps[step];
  const auto weights = weights_of_units(case_, item);
  const bool is_rounded = case_.setting.has("autocast");
  output_weights_.assign(units_.size(), 1);
  for (std::size_t i = 0; i < units_.size(); ++i)
    if (is_rounded)
      output_weights_[i] = weights[i];
    else
      units_[i]->set_weight(weights[i]);
  averages_.clear();
  each_active(step, true, [&](Session& unit) { unit.prepare(step); });
  bool is_broken = false;
  for (int pass = 0; pass < pass_count(item) && !is_broken; ++pass) {
    std::set<bool> is_well;
    std::set<int> retries;
    each_active(step, is_synced(item, pass), [&](Session& unit) {
      is_well.insert(unit.pass(step, pass));
      retries.insert(unit.retries());
    });
    require(is_well.size() < 2 && retries.size() < 2,
            "an exception on some ranks only");
    is_broken = is_well.count(false) > 0;
    if (is_synced(item, pass) && !is_broken) combine(step);
  }
  finish_step(step, is_broken);
}

void Reference::finish_step(std::size_t step, bool is_broken) {
  each_active(step, true, [&](Session& unit) {
    const std::size_t before = unit.record().size();
    unit.finish(step, is_broken);
    add_slacks(unit, before, "step " + std::to_string(step) + ", ");
  });
}

// Adds slacks to the entries of a unit's record, starting at `from`.
void Reference::add_slacks(Session& unit, std::size_t from,
                           const std::string& prefix) {
  for (const auto& [key, average] : averages_) {
    if (!average.slack.defined() && !average.is_open) continue;
    const std::string start = prefix + model_prefix(key.first);
    for (std::size_t i = from; i < unit.record().size(); ++i) {
      Entry& entry = unit.record()[i];
      const bool is_weight = entry.name == start + "weight " + key.second;
      if (!is_weight && entry.name != start + "gradient " + key.second)
        continue;
      entry.is_open = average.is_open;
      entry.slack = average.slack;
      if (is_weight)
        entry.slack =
            average.slack * kLearningRate +
            entry.value.abs().to(at::kDouble) *
                (type_of(case_) == at::kFloat ? std::ldexp(1, -22) : 0);
    }
  }
}

// Sets the weights found after a step. Buffers depend only on the forward
// passes, so they need not be set.
void Reference::start_from(const Record& found, std::size_t step) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> values;
  for (const Entry& entry : found) values[entry.name] = entry.value;
  for (const auto& unit : units_)
    for (std::size_t model = 0; model < unit->models(); ++model) {
      const std::string prefix =
          "step " + std::to_string(step) + ", " + model_prefix(model);
      for (auto& entry : unit->net(model)->named_parameters())
        if (const auto value = values.find(prefix + "weight " + entry.key());
            value != values.end())
          entry.value().copy_(value->second);
    }
}

// The first unit with the most steps.
std::size_t Reference::last_unit() const {
  std::size_t last = 0;
  for (std::size_t i = 1; i < units_.size(); ++i)
    if (steps_of(case_, static_cast<int>(i)) >
        steps_of(case_, static_cast<int>(last)))
      last = i;
  return last;
}

// All units get the weights and buffers of the last unit.
void Reference::end_join() {
  const at::NoGradGuard no_grad;
  const std::size_t last = last_unit();
  for (const auto& unit : units_)
    for (std::size_t model = 0; model < unit->models(); ++model) {
      auto& from = *units_[last]->net(model);
      auto& to = *unit->net(model);
      for (auto& entry : to.named_parameters())
        entry.value().copy_(from.named_parameters()[entry.key()]);
      for (auto& entry : to.named_buffers())
        entry.value().copy_(from.named_buffers()[entry.key()]);
    }
}

std::vector<Record> Reference::run(const std::vector<Record>& tested) {
  for (std::size_t step = 0; step < case_.steps.size(); ++step) {
    if (step > 0 && is_rounded(case_) && !tested.empty())
      start_from(tested[last_unit()], step - 1);
    take_step(step);
  }
  if (case_.setting.has("join")) end_join();
  std::vector<Record> records;
  if (case_.setting.has("join"))
    for (const auto& unit : units_) {
      const std::size_t before = unit->record().size();
      unit->finish_all();
      add_slacks(*unit, before, "end, ");
    }
  for (int rank = 0; rank < case_.ranks(); ++rank)
    records.push_back(
        units_[static_cast<std::size_t>(unit_of(case_, rank))]->record());
  return records;
}

}  // namespace

bool is_rounded(const Case& one) {
  return one.setting.has("exchange") || one.setting.has("f32");
}

std::vector<Record> reference(const Case& one,
                              const std::vector<Record>& tested) {
  if (one.setting.has("sync_batch_norm")) return joint_reference(one);
  return Reference(one).run(tested);
}

}  // namespace differential

#include "plain/reference_joint.hpp"

#include "plain/weighted.hpp"

namespace differential {
namespace {

class JointReference {
 public:
  explicit JointReference(const Case& one) : case_(one) {
    for (int unit = 0; unit < unit_count(one); ++unit) {
      units_.push_back(std::make_unique<Session>(one, unit, /*weights_of=*/0));
      units_.back()->share_nets(*units_[0]);
    }
    units_[0]->make_optimizers();
  }

  std::vector<Record> run() {
    for (std::size_t step = 0; step < case_.steps.size(); ++step)
      take_step(step);
    std::vector<Record> records;
    for (int rank = 0; rank < case_.ranks(); ++rank)
      records.push_back(
          units_[static_cast<std::size_t>(unit_of(case_, rank))]->record());
    return records;
  }

 private:
  void take_step(std::size_t step) {
    for (const auto& unit : units_) unit->prepare(step);
    for (int pass = 0; pass < pass_count(case_.steps[step]); ++pass)
      for (std::size_t model = 0; model < units_[0]->models(); ++model)
        take_pass(step, pass, model);
    const std::size_t before = units_[0]->record().size();
    units_[0]->finish(step, /*is_broken=*/false);
    const Record& all = units_[0]->record();
    for (std::size_t i = 1; i < units_.size(); ++i)
      units_[i]->record().insert(
          units_[i]->record().end(),
          all.begin() + static_cast<std::ptrdiff_t>(before), all.end());
  }

  void take_pass(std::size_t step, int pass, std::size_t model) {
    std::vector<Input> inputs;
    for (const auto& unit : units_)
      inputs.push_back(unit->input_of(step, pass, model));
    Net& net = *units_[0]->net(model);
    const auto outputs = net.forward(joined(inputs).x, joined(inputs).more);
    const auto kept = net.kept();
    const auto weights = weights_of_units(case_, case_.steps[step]);
    std::int64_t row = 0;
    at::Tensor sum;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const std::int64_t rows = inputs[i].x.size(0);
      const auto own = part_of(outputs, row, rows);
      units_[i]->set_weight(weights[i]);
      units_[i]->add_output(step, pass, model, own);
      const at::Tensor loss = units_[i]->loss_of(step, pass, model, inputs[i],
                                                 own, part_of(kept, row, rows));
      sum = sum.defined() ? sum + loss : loss;
      row += rows;
    }
    const at::Tensor mean = sum / static_cast<double>(units_.size());
    if (case_.steps[step].has("retain")) mean.backward({}, true);
    mean.backward();
  }

  static Input joined(const std::vector<Input>& inputs) {
    std::vector<at::Tensor> first;
    for (const Input& input : inputs) first.push_back(input.x);
    Input all{torch::cat(first), {}};
    for (std::size_t i = 0; i < inputs[0].more.size(); ++i) {
      std::vector<at::Tensor> list;
      for (const Input& input : inputs) list.push_back(input.more[i]);
      all.more.push_back(torch::cat(list));
    }
    return all;
  }

  static std::vector<at::Tensor> part_of(const std::vector<at::Tensor>& list,
                                         std::int64_t row, std::int64_t rows) {
    std::vector<at::Tensor> parts;
    for (const at::Tensor& one : list)
      parts.push_back(one.narrow(0, row, rows));
    return parts;
  }

  Case case_;
  std::vector<std::unique_ptr<Session>> units_;
};

}  // namespace

std::vector<Record> joint_reference(const Case& one) {
  return JointReference(one).run();
}

}  // namespace differential

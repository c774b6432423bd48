#pragma once
// Creates libtorch optimizers and learning rate schedules from a config; saves
// and loads the state of optimizers by parameter name.

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sheaf/tensor/files/state_dict.hpp"
#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

using NamedTensors = tensor::StateDict;

std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const OptimizerConfig& config, std::vector<torch::Tensor> parameters);

void set_learning_rate(torch::optim::Optimizer& optimizer, double rate);

// Returns buffers and step counts under names such as
// "momentum_buffer/conv1.weight". The tensors share the optimizer's memory.
// `parameters` must be those the optimizer was created with. Parameters that
// were never updated have no state.
NamedTensors optimizer_state(const torch::optim::Optimizer& optimizer,
                             const NamedTensors& parameters);

// Replaces the optimizer's state by a copy of what optimizer_state() returned.
// Throws a UsageError that names the mismatch: state of another optimizer, or a
// buffer of another shape.
void load_optimizer_state(torch::optim::Optimizer& optimizer,
                          const NamedTensors& parameters,
                          const NamedTensors& state);

// The learning rate as a function of the step.
//
// constant: the base rate. step: multiplied by `factor` after every `every`
// epochs. cosine: half a cosine wave from the base rate down to `final_factor`
// of it at the end of the run. A warm-up rises linearly from `warmup_factor` of
// the rate; cosine then spans the rest of the run.
class Schedule {
 public:
  Schedule(const RunConfig& config, std::int64_t steps_per_epoch);

  // The rate of a step, counted from 0. Depends on no earlier calls.
  double rate(std::int64_t step) const;

 private:
  double factor(double step) const;

  ScheduleConfig schedule_;
  double rate_;
  double steps_per_epoch_;
  double warmup_steps_;
  double total_steps_;
};

}  // namespace sheaf::train

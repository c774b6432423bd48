#pragma once
// The program of one unit (a rank, or a grid of ranks) of a case, as a user
// writes it: data, forward, loss, backward, optimizer. The strategy under test,
// which replaces forward(), and the reference run the same program.

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "plain/network.hpp"

namespace differential {

inline constexpr double kLearningRate = 0.05;

// One tensor of a run; undefined: a missing gradient.
struct Entry {
  std::string name;
  at::Tensor value;
  // Allowed difference by element, if it is larger than rounding in f64; see
  // reference.hpp.
  at::Tensor slack = {};
  // Any finite values are accepted, because rounding determines them.
  bool is_open = false;
};
using Record = std::vector<Entry>;

struct Input {
  at::Tensor x;
  std::vector<at::Tensor> more;
};

class Session {
 public:
  using Outputs = std::vector<at::Tensor>;
  using Forward = std::function<Outputs(std::size_t model, const Input& input)>;
  using Whole = std::function<at::Tensor(const at::Tensor&)>;

  // The weights are those of the unit `weights_of`, which may be another unit.
  Session(const Case& one, int unit, int weights_of);

  // Replaces the module's forward().
  void set_forward(Forward forward) { forward_ = std::move(forward); }
  // Called after each backward() except those in no_sync().
  void set_after_backward(std::function<void()> action) {
    after_backward_ = std::move(action);
  }
  // The factor of the part of the loss that depends on outputs.
  void set_weight(double weight) { weight_ = weight; }
  // Converts outputs to ordinary tensors, for the record.
  void set_whole(Whole whole) { whole_ = std::move(whole); }

  // The events before a step: to(), freezing, evaluation, no gradients.
  void prepare(std::size_t step);
  // Runs forward, loss and backward; returns false after a requested exception.
  bool pass(std::size_t step, int pass);
  // After the last pass of a step: records gradients, runs the optimizer,
  // records weights. A step with an exception runs no optimizer.
  void finish(std::size_t step, bool is_broken);
  // Records weights and buffers at the end.
  void finish_all();

  // Creates the optimizers for the current parameters; called after the wrapper
  // is created.
  void make_optimizers();

  int unit() const { return unit_; }
  std::size_t models() const { return nets_.size(); }
  const std::shared_ptr<Net>& net(std::size_t model) const {
    return nets_[model];
  }
  // Whether the program has provided memory for its gradient.
  bool has_given(const at::Tensor& parameter) const {
    return given_.count(parameter.unsafeGetTensorImpl()) > 0;
  }
  // The number of times that a backward() was tried again.
  int retries() const { return retries_; }
  const Record& record() const { return record_; }
  Record& record() { return record_; }

  // For a reference that computes the passes of all units at once.
  Input input_of(std::size_t step, int pass, std::size_t model) const;
  at::Tensor loss_of(std::size_t step, int pass, std::size_t model,
                     const Input& input, const Outputs& outputs,
                     const std::vector<at::Tensor>& kept) const;
  void add_output(std::size_t step, int pass, std::size_t model,
                  const Outputs& outputs);
  void share_nets(const Session& other) { nets_ = other.nets_; }

 private:
  void add_output(const std::string& name, const Outputs& outputs);
  at::Tensor forward_loss(std::size_t step, int pass, std::size_t model,
                          int draw);
  // The losses of each graph of a model in a pass, in the order of their
  // backward().
  std::vector<at::Tensor> losses_of(std::size_t step, int pass,
                                    std::size_t model);
  void begin_pass(const Item& step, int pass);
  void backward(const Item& step, int pass, const at::Tensor& loss);
  void evaluate(std::size_t step);
  void convert();
  void drop_gradients(bool sets_to_zero);
  void give_gradients();
  void note_gradients(std::size_t step);
  bool is_finite() const;
  void note_weights(const std::string& prefix);

  Case case_;
  int unit_;
  std::vector<std::shared_ptr<Net>> nets_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers_;
  Forward forward_;
  Whole whole_;
  std::function<void()> after_backward_ = [] {};
  Record record_;
  double weight_ = 1;
  at::Tensor chained_;  // from the last forward, for the input of the next one
  int retries_ = 0;
  // Gradients that the program has provided, by parameter.
  std::map<const void*, at::Tensor> given_;
};

}  // namespace differential

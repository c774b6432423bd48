#pragma once
// The program of one unit (a rank, or a grid of ranks) of a case, as a user
// writes it: data, forward, loss, backward, optimizer. The same for the
// strategy under test, whose forward() is replaced, and for the reference.

#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "plain/network.hpp"

namespace differential {

inline constexpr double kLearningRate = 0.05;

// One tensor of a run; undefined: a gradient that is not there.
struct Entry {
  std::string name;
  at::Tensor value;
  // What may differ by element, where more than rounding in f64 may; see
  // reference.hpp.
  at::Tensor slack = {};
  // The values may be any that are finite: rounding decides them.
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

  // Weights are those of `weights_of`, another unit or this one.
  Session(const Case& one, int unit, int weights_of);

  // Instead of the module's own.
  void set_forward(Forward forward) { forward_ = std::move(forward); }
  // After each backward() but those in no_sync().
  void set_after_backward(std::function<void()> action) {
    after_backward_ = std::move(action);
  }
  // By which the part of the loss that follows from outputs is multiplied.
  void set_weight(double weight) { weight_ = weight; }
  // Makes ordinary tensors of outputs, for the record.
  void set_whole(Whole whole) { whole_ = std::move(whole); }

  // What happens ahead of a step: to(), freezing, evaluation, no gradients.
  void prepare(std::size_t step);
  // Forward, loss and backward; false after an exception that was asked for.
  bool pass(std::size_t step, int pass);
  // After the last pass of a step: gradients, the optimizer, weights. A step
  // with an exception takes none.
  void finish(std::size_t step, bool is_broken);
  // Weights and buffers at the end.
  void finish_all();

  // Before the wrapper is made, and after: what the optimizer works on.
  void make_optimizers();

  int unit() const { return unit_; }
  std::size_t models() const { return nets_.size(); }
  const std::shared_ptr<Net>& net(std::size_t model) const {
    return nets_[model];
  }
  // Whether the program has given memory for its gradient.
  bool has_given(const at::Tensor& parameter) const {
    return given_.count(parameter.unsafeGetTensorImpl()) > 0;
  }
  // How often a backward() was tried again.
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
  // Of each graph of a model in a pass, in the order of their backward().
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
  at::Tensor chained_;  // of the last forward, for the next one's input
  int retries_ = 0;
  // Gradients that the program has given, by parameter.
  std::map<const void*, at::Tensor> given_;
};

}  // namespace differential

#pragma once
// The gradients that parameters have when a pass begins, and the memory where
// the averages of the pass must be written.
//
// A parameter may have the average of an earlier pass, a gradient of passes
// without exchange (a *local* gradient), or a gradient in memory of the user,
// such as a view of a flat buffer. The averages of a pass are added to them or
// written to the user's memory; parameters that no rank has used keep their
// gradients bit for bit.

#include <torch/types.h>

#include <vector>

#include "sheaf/parallel/common/gradient_hooks.hpp"
#include "sheaf/parallel/common/gradient_mark.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"

namespace sheaf::parallel {

// In all functions, `in_bucket` is the tensor of the parameter's bucket, which
// does not belong to the user.
class EarlierGradients {
 public:
  // `parameters` must outlive this object.
  explicit EarlierGradients(const std::vector<TrainedParameter>& parameters)
      : parameters_(parameters), held_(parameters.size()) {}

  // Local gradients, in a backward() without exchange.
  void note_local(const NewGradient& gradient);
  void set_local(std::size_t parameter) { held_[parameter].is_local = true; }
  void forget_local(std::size_t parameter) {
    held_[parameter].is_local = false;
  }
  bool is_local(std::size_t parameter) const {
    return held_[parameter].is_local;
  }
  // Whether any parameter has a local gradient that was not reset.
  bool has_local() const;
  // Whether any parameter has a nonzero gradient that is not local.
  bool has_average() const;

  // Removes the gradients that are not local until add_averages(), because
  // ranks that have finished in join() have no share in them.
  void set_averages_aside();
  void add_averages();

  // Records whether the gradient that has just arrived is in memory of the
  // user.
  void note_memory(const NewGradient& gradient, const at::Tensor& in_bucket);
  // Removes a gradient whose content was taken from the parameter, so that
  // nothing remains if backward() throws. Memory of the user is set to zero.
  void take_away(std::size_t parameter);

  // For a parameter without a gradient in this pass: copies its gradient, if
  // any, and returns the copy.
  const at::Tensor& keep(std::size_t parameter, const at::Tensor& in_bucket);
  // Sets memory of the user to zero.
  void clear_users_memory(std::size_t parameter);
  // For a rank without data: removes the gradient, whose content counts as
  // zero. Returns a copy of the content if it is in memory of the user.
  at::Tensor hide(std::size_t parameter, const at::Tensor& in_bucket);
  // Undoes hide(), with its result: the memory of the user is set to zero, and
  // restore() restores the content.
  void unhide(std::size_t parameter, const at::Tensor& content);

  // Sets the gradient to the average of the pass.
  void replace(std::size_t parameter, const at::Tensor& average);
  // No rank has used the parameter: restores the gradient that was kept.
  void restore(std::size_t parameter);
  // The pass is discarded. A gradient that has arrived in it is lost, with
  // those it was added to; otherwise the earlier gradient is restored.
  void discard(std::size_t parameter, bool has_arrived);
  // Ends the pass; local gradients stay.
  void end_pass();
  void forget_all_local();

 private:
  struct Held {
    bool is_local = false;
    SeenTensor shared;     // a local gradient whose memory backward() shares
    at::Tensor users_own;  // in memory of the user
    at::Tensor kept;       // a copy, restored if no rank adds to it
    at::Tensor set_aside;  // see set_averages_aside()
  };

  at::Tensor& gradient(std::size_t parameter) const {
    return parameters_[parameter].tensor.mutable_grad();
  }
  void find_users_memory(std::size_t parameter, const at::Tensor& in_bucket);
  void add_to_users_memory(std::size_t parameter);

  const std::vector<TrainedParameter>& parameters_;
  std::vector<Held> held_;  // by parameter
};

}  // namespace sheaf::parallel

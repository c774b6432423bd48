#pragma once
// Gradients of weights on a factor route that come from uses outside of
// products. They are averaged like ordinary gradients, and the gradients that
// all ranks compute from factors are added to them.

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/gradient_hooks.hpp"
#include "sheaf/parallel/common/gradient_mark.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/dad/factor_message.hpp"

namespace sheaf::parallel {

// Not thread-safe.
class Remainders {
 public:
  // `parameters` must outlive this object; `watched` are those that may have a
  // remainder.
  Remainders(const std::vector<TrainedParameter>& parameters,
             std::vector<std::size_t> watched);

  const std::vector<std::size_t>& watched() const { return watched_; }

  // Takes the gradient that has just arrived from the parameter, so that
  // nothing remains if backward() throws. It may arrive in parts.
  void take(const NewGradient& gradient);
  // The same in a pass without exchange: the gradient stays in the parameter.
  // First note_local(), then mark_local(); in between the rows of the parameter
  // are compared with its gradient.
  void note_local(const NewGradient& gradient);
  void mark_local(std::size_t parameter);
  // Forgets gradients of passes without exchange that the user has reset or
  // replaced.
  void forget_reset();

  // Whether a remainder has arrived in this pass.
  bool has_arrived(std::size_t parameter) const {
    return list_[parameter].gradient.defined();
  }
  // Whether there is a remainder that must be averaged.
  bool has_any() const;
  // The parameters whose remainders must be averaged, because this rank has one
  // that is not zero.
  Numbers to_average() const;

  // Sets the parameter's gradient: the remainder, averaged over the group if
  // `is_averaged`, plus `made`, the gradient from factors; undefined: none. All
  // ranks must call it with the same `is_averaged`. Returns the number of bytes
  // that this rank sent.
  std::int64_t settle(std::size_t parameter, const comm::Group& group,
                      bool is_averaged, const at::Tensor& made);
  // Discards the parameter's remainder. Its gradient is reset if it is a
  // remainder of passes without exchange, or if `stands_for_rows`, unless the
  // user has changed it. `made`: the last gradient from factors.
  void discard(std::size_t parameter, bool stands_for_rows,
               const at::Tensor& made);
  // Begins the next pass.
  void clear();

 private:
  struct Remainder {
    at::Tensor gradient;  // of this pass, taken from the parameter
    // Set for a gradient of passes without exchange, which stays in the
    // parameter.
    GradientMark local;
    bool shares_memory = false;
    SeenTensor shared;  // the gradient whose memory backward() shares
    // Memory of the user, where the average must be written.
    at::Tensor users_own;
    // Whether this pass contributes only zeros, which are not sent.
    bool is_zero = true;

    bool is_sent() const { return !is_zero || local.is_set(); }
  };

  at::Tensor& gradient(std::size_t parameter) const {
    return parameters_[parameter].tensor.mutable_grad();
  }
  static at::Tensor take_users_memory(Remainder& remainder,
                                      const at::Tensor& gradient);

  const std::vector<TrainedParameter>& parameters_;
  std::vector<std::size_t> watched_;
  std::vector<Remainder> list_;  // by parameter
};

}  // namespace sheaf::parallel

#pragma once
// The interface of all strategies that train one module on many ranks.

#include <torch/types.h>

#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/agreement.hpp"
#include "sheaf/parallel/common/exchange_stats.hpp"
#include "sheaf/parallel/common/tensors_in.hpp"

namespace sheaf::parallel {

class Strategy {
 public:
  virtual ~Strategy() = default;

  // Around the module's own forward(), for those who call that directly. What
  // it gave may be replaced by tensors of the same values.
  virtual void before_forward() = 0;
  virtual void after_forward(const std::vector<at::Tensor*>& outputs) = 0;

  // While the guard lives, gradients add up on their ranks; the first
  // backward() after it averages the sum.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(Strategy& model)
        : model_(model), was_syncing_(model.is_syncing()) {
      model_.set_sync(false);
    }
    ~NoSync() { model_.set_sync(was_syncing_); }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Strategy& model_;
    const bool was_syncing_;
  };
  NoSync no_sync() { return NoSync(*this); }

  // What later averages depend on, for checkpoints: of all ranks, complete on
  // rank 0. All ranks call it, between two passes.
  virtual NamedTensors gather_state() const { return {}; }
  // The same on all ranks, before the first pass. The number of ranks may have
  // changed; what another strategy has saved is left alone.
  virtual void load_state(const NamedTensors& /*saved*/) {}

  // Buffers become rank 0's on all ranks, so that all evaluate and save one
  // model. All ranks call it, between two passes.
  virtual void share_buffers() {}

  // CheckError naming the first parameter or buffer whose bits differ between
  // ranks. Buffers that a forward() of any rank has changed since they were
  // last rank 0's are not compared: see ModuleBuffers. All ranks call it.
  virtual void check_weights() const = 0;

  virtual ExchangeStats stats() const = 0;
  virtual void reset_stats() = 0;
  virtual const comm::Group& group() const = 0;

 protected:
  virtual bool is_syncing() const = 0;
  virtual void set_sync(bool is_on) = 0;
};

}  // namespace sheaf::parallel

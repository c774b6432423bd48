#pragma once
// The interface of all strategies that train one module on many ranks. All
// ranks of the group must make the calls that communicate, in the same order.

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/tensors_in.hpp"

namespace sheaf::parallel {

// Whether gradients are exchanged while backward() computes the next ones.
enum class Overlap : std::uint8_t { kAuto, kOn, kOff };

// Time and traffic of the gradient exchange: totals since the last
// reset_stats().
struct ExchangeStats {
  double exchange_ms = 0;  // time in exchanges, overlapped or not
  double wait_ms = 0;      // the part that backward() waited for at its end
  // Computing gradients from factors, after the exchange.
  double gradient_ms = 0;
  std::int64_t bytes = 0;  // sent by this rank
  std::int64_t passes = 0;
  std::int64_t buckets = 0;
};

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

class Strategy {
 public:
  virtual ~Strategy() = default;

  // To be called before and after the module's own forward(), by programs that
  // call that directly. after_forward() may replace the outputs with tensors of
  // the same values.
  virtual void before_forward() = 0;
  virtual void after_forward(const std::vector<at::Tensor*>& outputs) = 0;
  // The complete forward pass: before_forward(), `body`, which calls the
  // module's forward(), and after_forward() with the tensors in its result.
  template <class Body>
  auto run_forward(const Body& body) {
    before_forward();
    return finish_forward(body);
  }

  // While the guard exists, gradients accumulate locally on each rank. The
  // first backward() afterwards averages the sum. The guard must not outlive
  // the model.
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

  // The state that later averages depend on, for checkpoints: gathered from all
  // ranks, complete on rank 0. All ranks must call it, between two passes.
  virtual NamedTensors gather_state() const { return {}; }
  // Restores a saved state. Every rank passes the same `saved`, before the
  // first pass. The number of ranks may have changed; entries of other
  // strategies are ignored.
  virtual void load_state(const NamedTensors& /*saved*/) {}

  // Copies rank 0's buffers to all ranks, so that all ranks evaluate and save
  // the same model. All ranks must call it, between two passes.
  virtual void share_buffers() {}

  // Throws CheckError with the first parameter or buffer whose bits differ
  // between ranks. Buffers that any rank's forward() has changed since the last
  // broadcast are not compared; see ModuleBuffers. All ranks must call it.
  virtual void check_weights() const = 0;

  virtual ExchangeStats stats() const = 0;
  virtual void reset_stats() = 0;
  virtual const comm::Group& group() const = 0;

 protected:
  virtual bool is_syncing() const = 0;
  virtual void set_sync(bool is_on) = 0;

  // The part of run_forward() that follows before_forward().
  template <class Body>
  auto finish_forward(const Body& body) {
    const ForwardEnd end{*this};
    auto output = body();
    after_forward(tensors_in(output));
    return output;
  }
  // Called at the end of finish_forward(), also if the module threw.
  virtual void end_forward() {}

 private:
  struct ForwardEnd {
    Strategy& model;
    ~ForwardEnd() { model.end_forward(); }
  };
};

}  // namespace sheaf::parallel

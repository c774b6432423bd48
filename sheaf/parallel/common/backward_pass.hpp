#pragma once
// One backward() whose gradients are exchanged, independent of how they are
// exchanged.
//
// A *pass* begins on all ranks with the first gradient of a backward() and ends
// with that backward(). A *sink* receives the gradients of some parameters and
// replaces them with their averages: buckets (Reducer) or factors
// (FactorReducer). All sinks of a module share one pass, so that all ranks
// begin and end them in the same order, no matter which parameters a rank has
// used.
//
// A backward() that throws breaks its pass. The next pass, or the next
// forward(), discards the broken pass first, so that no part of it remains in
// later gradients.

#include <torch/types.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "sheaf/parallel/common/gradient_hooks.hpp"

namespace sheaf::parallel {

// The thread that runs backward() calls these functions, one at a time.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // `first`: the sink's parameter whose gradient has already arrived, if any.
  virtual void begin_pass(std::optional<std::size_t> first) = 0;
  // Adds the gradient of one of the sink's parameters. With nested backward()
  // calls, such as those of checkpointed layers, it may arrive in parts.
  virtual void add(const NewGradient& gradient) = 0;
  // The same in a backward() without exchange: the gradient is kept for the
  // next pass.
  virtual void add_local(const NewGradient& gradient) = 0;
  // Called after the last gradient, for all sinks before finalize() of any:
  // starts the remaining exchanges, so that those of all sinks overlap.
  virtual void flush() {}
  // Called after flush(). Returns when all averages are complete.
  virtual void finalize() = 0;
  // Discards a broken pass, after waiting for exchanges in progress.
  virtual void discard() noexcept = 0;
};

class BackwardPass {
 public:
  BackwardPass() = default;
  ~BackwardPass();
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  struct Connection {
    at::Tensor parameter;
    GradientSink* sink = nullptr;
    std::size_t index = 0;  // among the sink's parameters
  };
  // From now on gradients go to these sinks, which must outlive their
  // connections. Each pass begins and ends the sinks in the given order. Must
  // be called between passes.
  void connect(std::vector<GradientSink*> sinks,
               std::vector<Connection> connections);
  void disconnect() { connect({}, {}); }

  // If off, gradients stay on this rank and accumulate. All ranks must switch
  // at the same point.
  void set_sync(bool is_on) { is_syncing_ = is_on; }
  bool is_syncing() const { return is_syncing_; }
  // Actions called before each pass begins, and after each pass that succeeded.
  void set_before_pass(std::function<void()> action) {
    before_pass_ = std::move(action);
  }
  void set_after_pass(std::function<void()> action) {
    after_pass_ = std::move(action);
  }

  // Called after a pass has failed with an exception from a sink; the exception
  // is then rethrown.
  void set_after_failure(std::function<void()> action) {
    after_failure_ = std::move(action);
  }
  // Ends the open pass, if any. Called at the end of backward().
  void close();

  // Begins a pass unless one is open. Called within backward(), by sinks that
  // detect the pass before the first gradient arrives.
  void open();
  // `outputs` are the results of forward(): the pass begins when backward()
  // reaches one of them. Without this call, the pass would begin with the first
  // gradient, and would end too early if that gradient comes from a nested
  // backward().
  void watch(const std::vector<at::Tensor*>& outputs);
  // Begins a pass unless one is open. Called when backward() reaches an output:
  // an open pass of another thread belongs to a backward() that threw.
  void open_at_output();
  // Called before forward(): discards the pass of a backward() that threw.
  void discard_broken();

 private:
  struct End;
  // An open pass.
  struct Open {
    std::weak_ptr<End> end;         // expires with its backward()
    BackwardId backward = nullptr;  // the backward() that opened it
    std::thread::id thread;         // the thread that opened it
  };

  void on_gradient(const Connection& to, NewGradient gradient);
  void wait_for_end_of_others();
  void open_locked(const Connection* first = nullptr);
  void discard_locked();
  void finalize();

  bool is_syncing_ = true;
  std::function<void()> before_pass_;
  std::function<void()> after_pass_;
  std::function<void()> after_failure_;
  std::vector<GradientSink*> sinks_;
  std::unique_ptr<GradientHooks> hooks_;
  std::mutex mutex_;  // hooks may run on several devices' threads
  std::optional<Open> open_;
  // Null after destruction, for hooks and callbacks that outlive this object.
  std::shared_ptr<BackwardPass*> self_ = std::make_shared<BackwardPass*>(this);
};

// Opens a pass before the first gradient is added to a parameter, also if
// backward() does not go through a watched output.
class ParameterHooks {
 public:
  ParameterHooks(BackwardPass& pass, const std::vector<at::Tensor>& parameters);
  ~ParameterHooks();
  ParameterHooks(const ParameterHooks&) = delete;
  ParameterHooks& operator=(const ParameterHooks&) = delete;

 private:
  std::vector<std::pair<at::Tensor, unsigned>> hooks_;
};

}  // namespace sheaf::parallel

#pragma once
// One backward() whose gradients are exchanged, whatever the exchange.
//
// A *pass* begins on all ranks with the first gradient of a backward() and ends
// with it. A *sink* takes the gradients of some parameters and leaves their
// averages: buckets (Reducer) or factors (FactorReducer). The sinks of a module
// share its pass, so that all ranks begin and end all of them in the same
// order, whichever parameters a rank has used.
//
// A backward() that throws breaks its pass. The next pass, or the next
// forward(), discards it first: nothing of it is left in later gradients.

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

// Functions are called by the thread that runs backward(), one at a time.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // `first`: the sink's parameter whose gradient has come already, if any has.
  virtual void begin_pass(std::optional<std::size_t> first) = 0;
  // The gradient of one of the sink's parameters. With backward() calls within
  // backward(), such as those of checkpointed layers, it may come in parts.
  virtual void add(const NewGradient& gradient) = 0;
  // The same in a backward() without exchange: it waits for the next pass.
  virtual void add_local(const NewGradient& gradient) = 0;
  // No more gradients come. Returns when all averages are there.
  virtual void finalize() = 0;
  // Forgets a broken pass, after waiting for exchanges that are under way.
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
  // From now on gradients go to these sinks, which outlive their connections.
  // Passes begin and end them in the order given. Between passes.
  void connect(std::vector<GradientSink*> sinks,
               std::vector<Connection> connections);
  void disconnect() { connect({}, {}); }

  // Off: gradients stay with this rank, and add up. All ranks switch alike.
  void set_sync(bool is_on) { is_syncing_ = is_on; }
  bool is_syncing() const { return is_syncing_; }
  // Called before each pass begins, and after each that ended well.
  void set_before_pass(std::function<void()> action) {
    before_pass_ = std::move(action);
  }
  void set_after_pass(std::function<void()> action) {
    after_pass_ = std::move(action);
  }

  // Called after a pass has ended by an exception of a sink, which goes on.
  void set_after_failure(std::function<void()> action) {
    after_failure_ = std::move(action);
  }
  // Ends the open pass, if any. Called at the end of backward().
  void close();

  // Begins a pass unless one is open. Called within backward(), by sinks that
  // see it before the first gradient does.
  void open();
  // Results of forward(): the pass begins when backward() reaches them. Without
  // this it begins with the first gradient, and ends too early where that is
  // of a backward() within backward().
  void watch(const std::vector<at::Tensor*>& outputs);
  // Begins a pass unless one is open. Called when backward() reaches an output:
  // a pass that another thread has opened is that of a backward() that threw.
  void open_at_output();
  // Called before forward(): discards the pass of a backward() that threw.
  void discard_broken();

 private:
  struct End;

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
  std::mutex mutex_;  // of hooks on several devices
  bool is_open_ = false;
  std::weak_ptr<End> end_;         // of the open pass, gone with its backward()
  BackwardId backward_ = nullptr;  // the one in which it was opened
  std::thread::id thread_;         // which opened it
  // For hooks and callbacks that may outlive this.
  std::shared_ptr<BackwardPass*> self_ = std::make_shared<BackwardPass*>(this);
};

// Opens a pass before the first gradient is added to a parameter, whichever way
// it comes.
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

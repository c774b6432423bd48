#pragma once
// A handle to an operation in progress.

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace sheaf::comm {

// Copies refer to the same operation. Destroying a Work does not cancel an
// operation that has started: a collective or a send runs to completion and
// keeps the memory captured by append() alive. A receive that no message has
// matched yet is dropped, so that its message goes to the next receive. Errors
// are lost with the last handle, hence [[nodiscard]]. Thread-safe.
class [[nodiscard]] Work {
 public:
  // Shared by the handles and the thread that performs the operation.
  class State {
   public:
    State() = default;
    virtual ~State();  // runs pending steps
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    void finish(std::exception_ptr error);
    // Makes progress on a message. Returns whether the operation has completed.
    virtual bool poll() { return is_done(); }
    virtual bool needs_polling() const { return false; }
    // Called between polls without progress; may throw.
    virtual void rest() {}
    bool is_done();
    void set_source(int source) { source_ = source; }

   protected:
    using Steps = std::vector<std::function<void()>>;
    bool has_ended_well();
    // For an operation that did not succeed: moves its steps out, so that the
    // memory they hold lives as long as it may still be used. Null if there are
    // no steps.
    std::shared_ptr<Steps> take_steps();

   private:
    friend class Work;
    void run_steps();  // once, after success
    std::exception_ptr error();

    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_done_ = false;
    Steps steps_;
    std::exception_ptr error_;
    int source_ = -1;
  };

  Work() = default;  // an operation that has completed without error
  explicit Work(std::shared_ptr<State> state);

  // Blocks until the operation has completed and its actions have run. Rethrows
  // the error of the operation, otherwise the first error of an action. May be
  // called repeatedly and from several threads.
  void wait();
  // Same, but throws TimeoutError if the operation has not completed after
  // `timeout`. The operation continues: wait again or keep its buffers alive.
  void wait(std::chrono::milliseconds timeout);
  // Returns whether the operation has completed, with or without an error, and
  // its actions have run. Does not wait for the operation.
  bool test() const;
  // The error that wait() would throw; null while the operation runs and after
  // success.
  std::exception_ptr error() const;

  // Adds an action. Each action runs once, in the order added, in the first
  // wait() or test() that observes completion, or immediately if the operation
  // has already completed. The first overload runs its action only after
  // success; the second always, with the operation's error or null. An action
  // that throws does not prevent later actions from running. An action may use
  // this Work. Actions that have not run are destroyed with the last handle.
  void then(std::function<void()> action);
  void then(std::function<void(std::exception_ptr)> action);

  // For operations built on top of another one: makes `step` part of the
  // operation. It runs once, after success and before all actions, even if all
  // handles are gone; its captures live until the operation is over. If it
  // throws, the operation fails.
  void append(std::function<void()> step);

  // After irecv(): the rank that sent the message.
  int source() const;

 private:
  struct Handle;
  bool run_actions(bool may_wait) const;

  std::shared_ptr<Handle> handle_;
};

}  // namespace sheaf::comm

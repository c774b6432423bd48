#pragma once
// A handle on an operation that was started.

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

namespace sheaf::comm {

// Copies mean the same operation. A Work that is dropped cancels nothing that
// has begun: a collective and a send go on to their end, with the memory that
// they were given by append(); a receive that no message has matched yet is
// given up, so that its message goes to the next one. Errors are lost with the
// last handle, hence [[nodiscard]].
class [[nodiscard]] Work {
 public:
  // Shared by the handle and whoever does the work.
  class State {
   public:
    State() = default;
    virtual ~State();  // runs steps that are due
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    void finish(std::exception_ptr error);
    // Messages move on while somebody waits or tests. Whether it has ended.
    virtual bool poll() { return is_done(); }
    virtual bool needs_polling() const { return false; }
    // Called between polls that brought nothing; may throw.
    virtual void rest() {}
    bool is_done();
    void set_source(int source) { source_ = source; }

   protected:
    using Steps = std::vector<std::function<void()>>;
    bool has_ended_well();
    // For an operation that has not: what its steps hold, as long as others
    // may still use it. Null when there are none.
    std::shared_ptr<Steps> take_steps();

   private:
    friend class Work;
    void run_steps();  // once, after a good end
    std::exception_ptr error();

    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_done_ = false;
    Steps steps_;
    std::exception_ptr error_;
    int source_ = -1;
  };

  Work() = default;  // has ended, without error
  explicit Work(std::shared_ptr<State> state);

  // Returns when the operation has ended and its actions have run; rethrows
  // the operation's error, otherwise the first of an action. May be called
  // again, and by several threads.
  void wait();
  // As wait(), but TimeoutError if it has not ended after that time. The
  // operation goes on; wait again or keep its buffers alive.
  void wait(std::chrono::milliseconds timeout);
  // Whether it has ended, well or not, and its actions have run. Never blocks.
  bool test() const;
  // The error that wait() would throw; null while the operation runs or when
  // it ended well.
  std::exception_ptr error() const;

  // Adds an action. Actions run once each, in the order added, in the first
  // wait() or test() that sees the end; at once if that has come already. The
  // first form runs after a good end only, the second always, with the
  // operation's error or null. An action that throws does not keep the others
  // from running. An action may use this Work. Actions that have not run go
  // with the last handle.
  void then(std::function<void()> action);
  void then(std::function<void(std::exception_ptr)> action);

  // For those who build an operation on top of another: `step` is part of it.
  // It runs once, after a good end and before all actions, also when all
  // handles are gone; what it holds lives until the operation is over. When it
  // throws, the operation has failed.
  void append(std::function<void()> step);

  // After irecv: the rank that the message came from.
  int source() const;

 private:
  struct Handle;
  bool run_actions(bool may_wait) const;

  std::shared_ptr<Handle> handle_;
};

}  // namespace sheaf::comm

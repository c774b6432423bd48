#pragma once
// A handle on an operation that was started.

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>

namespace sheaf::comm {

class Work {
 public:
  // Shared by the handle and whoever does the work.
  class State {
   public:
    virtual ~State() = default;
    void finish(std::exception_ptr error);
    // Messages move on while somebody waits or tests. Whether it has ended.
    virtual bool poll() { return is_done(); }
    virtual bool needs_polling() const { return false; }
    // Called between polls that brought nothing; may throw.
    virtual void rest() {}
    bool is_done();
    void set_source(int source) { source_ = source; }
    void run_after();

   private:
    friend class Work;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_done_ = false;
    std::function<void()> after_;
    std::exception_ptr error_;
    int source_ = -1;
  };

  Work() = default;  // has ended, without error
  explicit Work(std::shared_ptr<State> state) : state_(std::move(state)) {}

  // Returns when the operation has ended; rethrows its error.
  void wait();
  // As wait(), but TimeoutError if it has not ended after that time. The
  // operation goes on; wait again or keep its buffers alive.
  void wait(std::chrono::milliseconds timeout);
  // Whether it has ended, well or not. Never blocks.
  bool test() const;
  // The error it ended with; null while it runs or when it ended well.
  std::exception_ptr error() const;
  // `action` runs once, in the first wait() or test() that sees a good end; at
  // once if it has come already. What it holds lives until then.
  void then(std::function<void()> action);
  // After irecv: the rank that the message came from.
  int source() const;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace sheaf::comm

#pragma once
// A case that does not end, or that crashes, is also a failure: the process
// ends and prints the case's text.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace differential {

class Watchdog {
 public:
  explicit Watchdog(std::string text)
      : text_("a case crashed:\n  " + std::move(text) + "\n"),
        thread_([this] { watch(); }) {
    current_ = this;
    for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT})
      ::signal(number, &Watchdog::on_crash);
  }
  ~Watchdog() {
    current_ = nullptr;
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  // Above the timeouts of groups, 20 s for threads and 60 s for processes,
  // which end the wait for a rank.
  static constexpr std::chrono::seconds kLimit{90};

  void watch() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kLimit, [this] { return is_over_; })) return;
    std::printf("a case did not end in %d s:\n%s",
                static_cast<int>(kLimit.count()),
                text_.c_str() + text_.find('\n') + 1);
    std::fflush(stdout);
    std::_Exit(3);
  }

  static void on_crash(int number) {
    ::signal(number, SIG_DFL);
    if (const Watchdog* const one = current_) [[maybe_unused]]
      const auto written =
          ::write(STDOUT_FILENO, one->text_.data(), one->text_.size());
    ::raise(number);
  }

  static inline Watchdog* volatile current_ = nullptr;

  std::string text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace differential

#pragma once
// A case that does not end is a failure, too: the process ends with its text.

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
      : text_(std::move(text)), thread_([this] { watch(); }) {}
  ~Watchdog() {
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
  // Far above the timeout of the groups, which ends what waits for a rank.
  static constexpr std::chrono::seconds kLimit{90};

  void watch() {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, kLimit, [this] { return is_over_; })) return;
    std::printf("a case did not end in %d s:\n  %s\n",
                static_cast<int>(kLimit.count()), text_.c_str());
    std::fflush(stdout);
    std::_Exit(3);
  }

  std::string text_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace differential

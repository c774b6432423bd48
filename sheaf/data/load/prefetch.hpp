#pragma once
// Makes numbered things ahead of time, and hands them out in order.

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

struct PrefetchOptions {
  std::int64_t begin = 0;  // the first number
  std::int64_t end = 0;    // behind the last
  int workers = 0;         // threads; with 0, next() does the work itself
  int ahead = 2;           // batches that wait or are being made, at most
};

// Threads call make(number) for the numbers in between, each once. One thread
// takes the results by next(). The end of life waits for the calls that are
// under way and begins no others.
class Prefetcher {
 public:
  using Make = std::function<Batch(std::int64_t)>;
  Prefetcher(Make make, PrefetchOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch in order, or nothing at the end. What make() threw for that
  // batch is thrown here, and then there are no more.
  std::optional<Batch> next();

 private:
  struct Result {
    Batch batch;
    std::exception_ptr error;
  };

  void work();
  Result attempt(std::int64_t number) const;
  Result wait_for_next();
  bool can_start() const;
  void stop();

  Make make_;
  PrefetchOptions options_;
  std::int64_t wanted_;  // by next()

  std::mutex mutex_;
  std::condition_variable is_ready_;  // a result came
  std::condition_variable has_room_;  // a worker may start
  std::int64_t started_;              // the next number to make
  std::map<std::int64_t, Result> results_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sheaf::data

#pragma once
// Prefetches numbered batches in worker threads and returns them in order.

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
  std::int64_t end = 0;    // one past the last number
  int workers = 0;         // threads; 0: next() makes the batch itself
  int ahead = 2;           // maximum number of batches in progress or waiting
};

// Worker threads call make(number) once for each number in [begin, end). One
// thread consumes the results with next(). The destructor waits for calls in
// progress and starts no others.
class Prefetcher {
 public:
  using Make = std::function<Batch(std::int64_t)>;
  Prefetcher(Make make, PrefetchOptions options);
  ~Prefetcher();
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;

  // The next batch in order, or nullopt at the end. Rethrows the exception of
  // make() for that batch; after that there are no more batches.
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
  std::int64_t wanted_;  // the number that next() returns

  std::mutex mutex_;
  std::condition_variable is_ready_;  // a result is available
  std::condition_variable has_room_;  // a worker may start
  std::int64_t started_;              // the next number to make
  std::map<std::int64_t, Result> results_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace sheaf::data

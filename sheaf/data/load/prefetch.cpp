#include "sheaf/data/load/prefetch.hpp"

#include <algorithm>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::data {

Prefetcher::Prefetcher(Make make, PrefetchOptions options)
    : make_(std::move(make)),
      options_(options),
      wanted_(options.begin),
      started_(options.begin) {
  SHEAF_CHECK(options.workers >= 0, "a loader with ", options.workers,
              " workers; use 0 or more");
  SHEAF_CHECK(options.ahead >= 1, "a loader that prefetches ", options.ahead,
              " batches; use 1 or more");
  try {
    for (int i = 0; i < options.workers; ++i)
      threads_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

Prefetcher::~Prefetcher() { stop(); }

void Prefetcher::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  has_room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

bool Prefetcher::can_start() const {
  return started_ < options_.end && started_ < wanted_ + options_.ahead;
}

Prefetcher::Result Prefetcher::attempt(std::int64_t number) const {
  try {
    return {make_(number), nullptr};
  } catch (...) {
    return {{}, std::current_exception()};
  }
}

void Prefetcher::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    has_room_.wait(lock, [this] {
      return is_stopped_ || started_ >= options_.end || can_start();
    });
    if (is_stopped_ || started_ >= options_.end) return;
    const std::int64_t number = started_++;
    lock.unlock();
    Result result = attempt(number);
    lock.lock();
    results_.emplace(number, std::move(result));
    is_ready_.notify_one();
  }
}

Prefetcher::Result Prefetcher::wait_for_next() {
  if (threads_.empty()) return attempt(wanted_++);
  std::unique_lock lock(mutex_);
  is_ready_.wait(lock, [this] { return results_.count(wanted_) != 0; });
  Result result = std::move(results_.at(wanted_));
  results_.erase(wanted_++);
  has_room_.notify_all();
  return result;
}

std::optional<Batch> Prefetcher::next() {
  if (wanted_ >= options_.end) return std::nullopt;
  Result result = wait_for_next();
  if (!result.error) return std::move(result.batch);
  stop();
  options_.end = wanted_;
  std::rethrow_exception(result.error);
}

}  // namespace sheaf::data

// The number of collectives of a pass.

#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "tests/parallel/common/training.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;
using comm::Group;
using comm::run_threads;

// The collectives of all ranks by operation, except barriers.
struct CallLog {
  std::mutex mutex;
  std::map<comm::Operation, int> calls;
};

CallLog& call_log() {
  static CallLog log;
  return log;
}

void log_call(const comm::Fingerprint& call, int /*ranks*/) {
  CallLog& log = call_log();
  const std::lock_guard lock(log.mutex);
  if (call.operation != comm::Operation::kBarrier) ++log.calls[call.operation];
}

// Logs the collectives of all ranks between two calls of all ranks.
class CallCounter {
 public:
  CallCounter() {
    static const comm::Observer observer{log_call, [] {}};
    comm::set_observer(&observer);
  }
  ~CallCounter() { comm::set_observer(nullptr); }
  CallCounter(const CallCounter&) = delete;
  CallCounter& operator=(const CallCounter&) = delete;

  void start(const Group& group) const {
    comm::barrier(group).wait();
    if (group.rank() == 0) call_log().calls.clear();
    comm::barrier(group).wait();
  }
  // By operation, on each rank.
  std::map<comm::Operation, int> stop(const Group& group) const {
    comm::barrier(group).wait();
    auto calls = call_log().calls;
    for (auto& [operation, number] : calls) number /= group.size();
    comm::barrier(group).wait();
    return calls;
  }
};

struct Branches : torch::nn::Module {
  Branches() {
    for (int i = 0; i < 4; ++i)
      weights.push_back(
          register_parameter("w" + std::to_string(i), torch::ones({30})));
  }
  at::Tensor forward(const std::vector<int>& used) {
    at::Tensor sum = torch::zeros({});
    for (const int i : used)
      sum = sum + weights[static_cast<std::size_t>(i)].sum();
    return sum;
  }
  std::vector<at::Tensor> weights;
};

const std::vector<int> kAll{0, 1, 2, 3};

struct Calls {
  int all_reduces = 0;
  int others = 0;
  int buckets = 0;
};

// The calls of the second pass, in which each rank uses the parameters that
// `used` returns.
Calls calls_of_pass(const Group& group, const CallCounter& counter,
                    const DataParallelOptions& options,
                    const std::vector<int>& used = kAll) {
  DataParallel model(std::make_shared<Branches>(), group, options);
  model.forward(kAll).backward();  // the buckets are rebuilt
  model.reset_stats();
  counter.start(group);
  model.forward(used).backward();
  auto calls = counter.stop(group);
  Calls result{calls[comm::Operation::kAllReduce], 0,
               static_cast<int>(model.stats().buckets)};
  for (const auto& [operation, number] : calls)
    if (operation != comm::Operation::kAllReduce) result.others += number;
  return result;
}

DataParallelOptions small_buckets(Overlap overlap) {
  return {.bucket_mb = 1e-4, .first_bucket_mb = 1e-4, .overlap = overlap};
}

TEST(CallsPerPass, OneForEachBucket) {
  const CallCounter counter;
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    for (const bool finds_unused : {false, true})
      run_threads(3, [&](const Group& group) {
        DataParallelOptions options = small_buckets(overlap);
        options.find_unused_parameters = finds_unused;
        const Calls calls = calls_of_pass(group, counter, options);
        EXPECT_EQ(calls.buckets, 4);
        EXPECT_EQ(calls.all_reduces, calls.buckets);
        EXPECT_EQ(calls.others, 0);
      });
}

TEST(CallsPerPass, OneForEachBucketInSixteenBits) {
  const CallCounter counter;
  for (const auto type : {at::kHalf, at::kBFloat16})
    run_threads(2, [&](const Group& group) {
      DataParallelOptions options = small_buckets(Overlap::kAuto);
      options.exchange = make_half_exchange(type);
      const Calls calls = calls_of_pass(group, counter, options);
      EXPECT_EQ(calls.all_reduces, calls.buckets);
      EXPECT_EQ(calls.others, 0);
    });
}

TEST(CallsPerPass, OneMoreIfARankHasAnUnusedParameter) {
  const CallCounter counter;
  for (const Overlap overlap : {Overlap::kOn, Overlap::kOff})
    run_threads(3, [&](const Group& group) {
      DataParallelOptions options = small_buckets(overlap);
      options.find_unused_parameters = true;
      const Calls calls =
          calls_of_pass(group, counter, options,
                        group.rank() == 1 ? std::vector{0, 1, 3} : kAll);
      EXPECT_EQ(calls.all_reduces, calls.buckets + 1);
    });
}

// The graph is known after the first pass.
TEST(CallsPerPass, OneForEachBucketOfAStaticGraphWithUnusedParameters) {
  const CallCounter counter;
  run_threads(2, [&](const Group& group) {
    DataParallelOptions options = small_buckets(Overlap::kAuto);
    options.static_graph = true;
    auto net = std::make_shared<Branches>();
    DataParallel model(net, group, options);
    model.forward(std::vector{0, 2, 3}).backward();
    model.reset_stats();
    counter.start(group);
    model.forward(std::vector{0, 2, 3}).backward();
    auto calls = counter.stop(group);
    EXPECT_EQ(calls[comm::Operation::kAllReduce], model.stats().buckets);
    EXPECT_FALSE(net->weights[1].grad().defined());
  });
}

// Averages that the library cannot know to preserve a status.
class UsersExchange : public BucketExchange {
 public:
  std::int64_t average(const Group& group, Bucket& bucket,
                       int divisor) override {
    average_over(group, bucket.shared(), divisor, bucket.name());
    return bucket.bytes();
  }
};

TEST(CallsPerPass, OneMoreWithAnExchangeOfTheUser) {
  const CallCounter counter;
  run_threads(2, [&](const Group& group) {
    DataParallelOptions options = small_buckets(Overlap::kAuto);
    options.exchange = std::make_shared<UsersExchange>();
    const Calls calls = calls_of_pass(group, counter, options);
    EXPECT_EQ(calls.all_reduces, calls.buckets + 1);
  });
}

// Ranks without data take part in the passes of the others.
TEST(CallsPerPass, OneForEachBucketAndAnnouncementWithinJoin) {
  const CallCounter counter;
  run_threads(3, [&](const Group& group) {
    auto net = std::make_shared<Branches>();
    DataParallel model(net, group, small_buckets(Overlap::kAuto));
    model.forward(kAll).backward();
    model.reset_stats();
    counter.start(group);
    {
      auto join = model.join();
      if (group.rank() == 1) {
        forget_gradients(*net);
        model.forward(kAll).backward();
      }
      join.finish();
    }
    auto calls = counter.stop(group);
    EXPECT_EQ(calls[comm::Operation::kAllReduce], model.stats().buckets);
    EXPECT_GT(model.stats().buckets, 0);
  });
}

}  // namespace
}  // namespace sheaf::parallel

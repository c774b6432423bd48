#include "sheaf/parallel/data/bucket_averager.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/common/staging.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;
using Part = BucketAverager::Part;

TEST(BucketAverager, AveragesInPlaceAndThroughStaging) {
  for (const bool is_staged : {false, true})
    run_threads(2, [=](const Group& group) {
      BucketAverager averager(group, make_plain_exchange(), nullptr);
      const at::Tensor parameter = torch::zeros({3});
      Bucket bucket(
          group, {{parameter, 0}},
          {.is_staged = is_staged, .status = plan::StatusPlace::kAnywhere});
      for (const int sender : {-1, 0, 1}) {
        bucket.put(0, torch::full({3}, 1.0 + group.rank()));
        if (bucket.staging()) bucket.staging()->mark();
        averager.average(0, bucket, /*is_sparse=*/false,
                         {.is_status_set = group.rank() == sender});
        EXPECT_TRUE(bucket.gradient(0).equal(torch::full({3}, 1.5)));
        EXPECT_EQ(bucket.is_status_set(), sender >= 0);
      }
      EXPECT_EQ(averager.stats().buckets, 3);
      EXPECT_EQ(averager.stats().bytes, 3 * bucket.bytes());
    });
}

TEST(BucketAverager, DividesByTheDivisor) {
  run_threads(3, [](const Group& group) {
    BucketAverager averager(group, make_plain_exchange(), nullptr);
    EXPECT_EQ(averager.divisor(), 3);
    averager.set_divisor(2);
    Bucket bucket(group, {{torch::zeros({3}), 0}});
    bucket.put(0, torch::full({3}, 2.0));
    averager.average(0, bucket, /*is_sparse=*/false, {});
    EXPECT_TRUE(bucket.gradient(0).equal(torch::full({3}, 3.0)));
  });
}

TEST(BucketAverager, LeavesSparseGradientsThatNoRankUsed) {
  for (const bool is_used : {false, true})
    run_threads(2, [=](const Group& group) {
      BucketAverager averager(group, make_plain_exchange(), nullptr);
      const at::Tensor table = torch::zeros({4, 2});
      Bucket bucket(group, {{table, 0, /*is_exchanged_alone=*/true}});
      table.mutable_grad() = torch::sparse_coo_tensor(
          torch::tensor({{static_cast<std::int64_t>(group.rank())}}),
          torch::ones({1, 2}), {4, 2});
      const at::Tensor before = table.grad();
      averager.average(0, bucket, /*is_sparse=*/true,
                       {.is_used = is_used && group.rank() == 1});
      EXPECT_EQ(table.grad().is_same(before), !is_used);
      if (is_used) {
        at::Tensor expected = torch::zeros({4, 2});
        expected.slice(0, 0, 2).fill_(0.5);
        EXPECT_TRUE(table.grad().to_dense().equal(expected));
      }
    });
}

// The pass is part of the name of the messages.
TEST(BucketAverager, RanksInDifferentPassesDisagree) {
  run_threads(2, [](const Group& group) {
    BucketAverager averager(group, make_plain_exchange(), nullptr);
    EXPECT_EQ(averager.pass(), 1);
    averager.set_pass(1 + group.rank());
    Bucket bucket(group, {{torch::zeros({3}), 0}});
    bucket.put(0, torch::ones({3}));
    EXPECT_THROW(averager.average(0, bucket, /*is_sparse=*/false, {}), Error);
  });
}

TEST(BucketAverager, ClaimsItsExchange) {
  run_threads(1, [](const Group& group) {
    const std::shared_ptr<BucketExchange> exchange = make_plain_exchange();
    {
      const BucketAverager first(group, exchange, nullptr);
      EXPECT_THROW(BucketAverager(group, exchange, nullptr), UsageError);
    }
    const BucketAverager second(group, exchange, nullptr);
  });
}

}  // namespace
}  // namespace sheaf::parallel

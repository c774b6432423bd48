#include "sheaf/parallel/data/bucket.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;
using Status = plan::StatusPlace;

std::vector<BucketMember> members(const std::vector<std::int64_t>& sizes) {
  std::vector<BucketMember> list;
  for (const std::int64_t size : sizes)
    list.push_back({torch::zeros({size}), list.size()});
  return list;
}

TEST(Bucket, AStatusUsesPaddingWhereThereIsSome) {
  run_threads(1, [](const Group& group) {
    const auto elements = [&](const std::vector<std::int64_t>& sizes,
                              Status status) {
      return Bucket(group, members(sizes), {.status = status}).shared().numel();
    };
    for (const Status status : {Status::kNone, Status::kInPadding}) {
      EXPECT_EQ(elements({16, 3}, status), 32);
      EXPECT_EQ(elements({16, 32}, status), 48);
      EXPECT_EQ(elements({5}, status), 5);
    }
    EXPECT_EQ(elements({3, 16}, Status::kAnywhere), 32);
    EXPECT_EQ(elements({16, 32}, Status::kAnywhere), 64);
    EXPECT_GT(elements({5}, Status::kAnywhere), 5);

    const auto has_status = [&](const std::vector<std::int64_t>& sizes,
                                Status status) {
      return Bucket(group, members(sizes), {.status = status}).has_status();
    };
    EXPECT_FALSE(has_status({16, 3}, Status::kNone));
    EXPECT_TRUE(has_status({16, 3}, Status::kInPadding));
    EXPECT_FALSE(has_status({16, 32}, Status::kInPadding));
    EXPECT_FALSE(has_status({5}, Status::kInPadding));
    EXPECT_TRUE(has_status({16, 32}, Status::kAnywhere));
    EXPECT_TRUE(has_status({5}, Status::kAnywhere));
  });
}

// In each type, with each exchange that supports it: set if it was set on any
// rank, and gradients stay what they are.
TEST(Bucket, TheStatusIsExchangedWithTheGradients) {
  for (const auto type : {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16})
    for (const bool is_half : {false, true})
      run_threads(4, [=](const Group& group) {
        const auto exchange =
            is_half ? make_half_exchange(at::kHalf) : make_plain_exchange();
        ASSERT_TRUE(exchange->keeps_zeros());
        for (const std::int64_t second : {3, 16}) {
          exchange->reset();  // for another bucket
          auto list = members({16, second});
          for (BucketMember& one : list) one.parameter = one.parameter.to(type);
          Bucket bucket(group, list, {.status = Status::kAnywhere});
          for (int sender = -1; sender < group.size(); ++sender) {
            for (std::size_t i = 0; i < 2; ++i)
              bucket.put(i, torch::full_like(list[i].parameter, 2));
            bucket.write_status(group.rank() == sender);
            exchange->average(group, bucket, group.size());
            EXPECT_EQ(bucket.is_status_set(), sender >= 0);
            for (std::size_t i = 0; i < 2; ++i)
              EXPECT_TRUE(bucket.gradient(i).eq(2).all().item<bool>());
          }
        }
      });
}

TEST(Bucket, WithoutSpaceAStatusIsIgnored) {
  run_threads(1, [](const Group& group) {
    Bucket bucket(group, members({16, 16}));
    bucket.write_status(true);
    EXPECT_EQ(bucket.shared().count_nonzero().item<int>(), 0);
  });
}

}  // namespace
}  // namespace sheaf::parallel

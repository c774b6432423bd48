#include "sheaf/parallel/data/gradient_arrivals.hpp"

#include <gtest/gtest.h>

namespace sheaf::parallel {
namespace {

using Order = std::vector<std::size_t>;

Order take_all(GradientArrivals& arrivals, std::size_t end) {
  Order list;
  while (const auto bucket = arrivals.take_complete(end))
    list.push_back(*bucket);
  return list;
}

TEST(GradientArrivals, ReturnCompleteBucketsInOrder) {
  GradientArrivals arrivals({2, 1, 0, 1});
  for (int pass = 0; pass < 2; ++pass) {
    arrivals.begin_pass();
    arrivals.mark_arrived(1);
    arrivals.mark_arrived(0);
    EXPECT_EQ(take_all(arrivals, 3), Order{});  // bucket 0 is missing
    arrivals.mark_unused(2);
    EXPECT_EQ(take_all(arrivals, 3), (Order{0}));
    arrivals.mark_arrived(3);
    EXPECT_EQ(take_all(arrivals, 2), (Order{1}));  // the last one is held back
    EXPECT_EQ(take_all(arrivals, 3), (Order{2}));
    EXPECT_EQ(take_all(arrivals, 3), Order{});
    arrivals.end_pass();
  }
}

TEST(GradientArrivals, KnowTheStateOfEachParameter) {
  GradientArrivals arrivals({0, 0, 0});
  EXPECT_FALSE(arrivals.is_in_pass());
  arrivals.begin_pass();
  EXPECT_TRUE(arrivals.is_in_pass());
  arrivals.mark_arrived(0);
  arrivals.mark_unused(1);
  EXPECT_TRUE(arrivals.has_arrived(0));
  EXPECT_FALSE(arrivals.has_arrived(1));
  EXPECT_FALSE(arrivals.is_waiting(0));
  EXPECT_FALSE(arrivals.is_waiting(1));
  EXPECT_TRUE(arrivals.is_waiting(2));
  arrivals.end_pass();
  EXPECT_FALSE(arrivals.is_in_pass());
  EXPECT_FALSE(arrivals.has_arrived(0));
  EXPECT_TRUE(arrivals.is_waiting(1));
}

TEST(GradientArrivals, RememberTheOrder) {
  GradientArrivals arrivals({0, 0, 0, 0});
  EXPECT_EQ(arrivals.order(), (Order{3, 2, 1, 0}));
  arrivals.begin_pass();
  arrivals.mark_arrived(2);
  arrivals.mark_unused(3);
  arrivals.mark_arrived(0);
  arrivals.end_pass();
  EXPECT_EQ(arrivals.order(), (Order{2, 0, 3, 1}));
  arrivals.set_buckets({1, 1, 0, 1});
  EXPECT_EQ(arrivals.order(), (Order{2, 0, 3, 1}));
  arrivals.begin_pass();
  arrivals.mark_arrived(2);
  EXPECT_EQ(take_all(arrivals, 2), (Order{0}));
}

}  // namespace
}  // namespace sheaf::parallel

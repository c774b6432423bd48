// Ranks that disagree: all of them get an error that names both calls.

#include <gtest/gtest.h>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "tests/comm/group/go_on.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using test::Ending;
using test::go_on;
using test::Hosts;
using test::Outcome;

struct Difference {
  std::string name;
  std::function<void(const Group&)> usual;
  std::function<void(const Group&)> odd;
  std::string usual_words;
  std::string odd_words;
};

template <class T>
auto sum_of(std::size_t count, CollectiveOptions options = {}) {
  return [=](const Group& group) {
    std::vector<T> data(count);
    all_reduce(group, data, options).wait();
  };
}

auto cast_from(int root, std::size_t count = 100) {
  return [=](const Group& group) {
    std::vector<float> data(count);
    broadcast(group, data, {.root = root}).wait();
  };
}

auto gather_blocks(std::size_t first) {
  return [=](const Group& group) {
    std::vector<std::size_t> counts(static_cast<std::size_t>(group.size()), 10);
    counts[0] = first;
    counts[1] = 20 - first;
    std::vector<float> mine(counts[static_cast<std::size_t>(group.rank())]);
    std::vector<float> all(10 * counts.size());
    all_gather(group, mine, all, {}, counts).wait();
  };
}

auto in_turn(std::function<void(const Group&)> a,
             std::function<void(const Group&)> b) {
  return [=](const Group& group) {
    a(group);
    b(group);
  };
}

std::vector<Difference> differences() {
  constexpr std::size_t kMany = 100000;  // needs several segments
  const std::string two = "all_reduce #2 ";
  return {{"type", sum_of<float>(100), sum_of<std::int32_t>(100), two + "(f32",
           two + "(i32"},
          {"count", sum_of<float>(100), sum_of<float>(101), "100 elements",
           "101 elements"},
          {"large count", sum_of<float>(kMany), sum_of<float>(kMany + 5000),
           "100000 elements", "105000 elements"},
          {"small and large", sum_of<float>(10), sum_of<float>(kMany),
           "10 elements", "100000 elements"},
          {"operation", sum_of<float>(100), cast_from(0), two, "broadcast #2 "},
          {"large operation", sum_of<float>(kMany), cast_from(0, kMany), two,
           "broadcast #2 "},
          {"root", cast_from(0), cast_from(1), "root 0", "root 1"},
          {"large root", cast_from(0, kMany), cast_from(1, kMany), "root 0",
           "root 1"},
          {"reduction", sum_of<float>(100),
           sum_of<float>(100, {.op = ReduceOp::kMax}), "f32 sum", "f32 max"},
          {"name", sum_of<float>(100, {.name = "weights"}),
           sum_of<float>(100, {.name = "biases"}), "name hash", "name hash"},
          {"algorithm", sum_of<float>(100, {.algorithm = Algorithm::kRing}),
           sum_of<float>(100, {.algorithm = Algorithm::kTree}), "mode", "mode"},
          {"order", in_turn(sum_of<float>(100), cast_from(0)),
           in_turn(cast_from(0), sum_of<float>(100)), two, "broadcast #2 "},
          {"sizes of blocks", gather_blocks(10), gather_blocks(11),
           "all_gather #2", "all_gather #2"}};
}

void expect_named(const Outcome& outcome, const Difference& difference,
                  int odd) {
  EXPECT_EQ(outcome.ending, Ending::kMismatch) << outcome;
  for (const auto& words :
       {difference.usual_words, difference.odd_words,
        "rank " + std::to_string(odd) + " calls", std::string(", but rank ")})
    EXPECT_TRUE(outcome.names(words)) << words << " is not in: " << outcome;
}

class Mismatch : public testing::TestWithParam<Hosts> {
 protected:
  void check(const Difference& difference, int odd) {
    const auto all = test::outcomes(GetParam(), [&](const Group& group) {
      barrier(group).wait();
      (group.rank() == odd ? difference.odd : difference.usual)(group);
      go_on(group);
    });
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      SCOPED_TRACE(testing::Message()
                   << "different " << difference.name << " on rank " << odd
                   << ", as seen by " << rank);
      expect_named(all[rank], difference, odd);
    }
  }
  const test::ExpectFailures failures_;
};

TEST_P(Mismatch, IsReportedToAllRanks) {
  const int last = static_cast<int>(GetParam().size()) - 1;
  for (const Difference& difference : differences()) check(difference, last);
}

TEST_P(Mismatch, IsReportedWhicheverRankDiffers) {
  const auto all = differences();
  for (int odd = 0; odd < static_cast<int>(GetParam().size()); ++odd) {
    check(all[1], odd);
    check(all[4], odd);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Hosts, Mismatch,
    testing::Values(Hosts{"a", "a"}, Hosts{"a", "a", "a", "a"}, Hosts{"a", "b"},
                    Hosts{"a", "a", "b", "b"}, Hosts{"a", "b", "a", "b"},
                    Hosts{"a", "b", "c", "d"},
                    Hosts{"a", "b", "b", "c", "c", "c"}),
    test::joined);

// Groups made by one split() have the same id.
TEST(MismatchInHalves, DoesNotHideThatOfTheOtherHalf) {
  const test::ExpectFailures failures;
  const auto all =
      test::outcomes({"a", "a", "b", "b", "c", "c"}, [](const Group& world) {
        const Group half = world.split(world.rank() % 2);
        barrier(half).wait();
        const std::size_t count = half.rank() == 0 ? 10 : 11;
        std::vector<float> data(count);
        all_reduce(half, data).wait();
        go_on(half);
      });
  for (const Outcome& outcome : all)
    EXPECT_EQ(outcome.ending, Ending::kMismatch) << outcome;
}

}  // namespace
}  // namespace sheaf::comm

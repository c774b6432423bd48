#include "sheaf/tensor/groups/linear_map.hpp"

#include <gtest/gtest.h>

#include "sheaf/comm/group/make_group.hpp"
#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/host/fingerprint.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::tensor::differentiable {
namespace {

using comm::ReduceOp;
using comm::run_threads;

constexpr int kMapRanks = 3;
constexpr int kMapRoot = 2;

at::Tensor doubles(const std::vector<double>& values) {
  return at::tensor(values, at::kDouble);
}

// A map of three ranks whose parts have 1, 0 and 2 elements. In an all_to_all
// rank r sends `counts[to]` elements to rank `to`, thus every rank receives
// counts[r] from each.
LinearMap uneven_map(Kind kind, const Group& group) {
  LinearMap map{kind, group, {.root = kMapRoot}, "test"};
  map.counts = {1, 0, 2};
  map.own_count = map.counts[static_cast<std::size_t>(group.rank())];
  if (kind == Kind::kAllToAll) map.received = ElementCounts(3, map.own_count);
  if (kind == Kind::kScatter && !map.is_root()) map.counts = {};
  return map;
}

// Applies the map to 10 * rank, 10 * rank + 1, ..., and then its adjoint to 1,
// 2, ... plus 10 * rank.
struct MapResult {
  at::Tensor output;
  at::Tensor gradient;
};

MapResult applied_map(const LinearMap& map, std::int64_t count) {
  const double begin = 10.0 * map.group.rank();
  const auto options = at::TensorOptions(at::kDouble);
  const at::Tensor x =
      at::arange(begin, begin + static_cast<double>(count), options)
          .requires_grad_();
  const at::Tensor y = apply(map, x);
  const auto ends = static_cast<double>(y.numel());
  (y * (at::arange(1, ends + 1, options) + begin)).sum().backward();
  return {y.detach(), x.grad()};
}

void expect_map(const MapResult& got, const std::vector<double>& output,
                const std::vector<double>& gradient) {
  EXPECT_TRUE(got.output.equal(doubles(output))) << got.output;
  EXPECT_TRUE(got.gradient.equal(doubles(gradient))) << got.gradient;
}

using Rows = std::vector<std::vector<double>>;

// The outputs and gradients of all ranks.
void expect_kind(Kind kind, const std::vector<std::int64_t>& sizes,
                 const Rows& outputs, const Rows& gradients) {
  run_threads(kMapRanks, [&](const Group& group) {
    const auto rank = static_cast<std::size_t>(group.rank());
    expect_map(applied_map(uneven_map(kind, group), sizes[rank]), outputs[rank],
               gradients[rank]);
  });
}

TEST(LinearMap, AllReduce) {
  expect_kind(Kind::kAllReduce, {2, 2, 2}, Rows(3, {30, 33}),
              Rows(3, {33, 36}));
}

TEST(LinearMap, ReduceAndBroadcastAreAdjoint) {
  expect_kind(Kind::kReduce, {2, 2, 2}, {{0, 0}, {0, 0}, {30, 33}},
              Rows(3, {21, 22}));
  expect_kind(Kind::kBroadcast, {2, 2, 2}, Rows(3, {20, 21}),
              {{0, 0}, {0, 0}, {33, 36}});
}

TEST(LinearMap, GatheringAndScatteringAreAdjoint) {
  expect_kind(Kind::kAllGather, {1, 0, 2}, Rows(3, {0, 20, 21}),
              {{33}, {}, {36, 39}});
  expect_kind(Kind::kReduceScatter, {3, 3, 3}, {{30}, {}, {33, 36}},
              Rows(3, {1, 21, 22}));
}

TEST(LinearMap, GatherAndScatterAreAdjoint) {
  expect_kind(Kind::kGather, {1, 0, 2}, {{}, {}, {0, 20, 21}},
              {{21}, {}, {22, 23}});
  expect_kind(Kind::kScatter, {0, 0, 3}, {{20}, {}, {21, 22}},
              {{}, {}, {1, 21, 22}});
}

TEST(LinearMap, AllToAll) {
  // Rank 0 gets the first element of each, rank 2 the other two.
  expect_kind(Kind::kAllToAll, {3, 3, 3},
              {{0, 10, 20}, {}, {1, 2, 11, 12, 21, 22}},
              {{1, 21, 22}, {2, 23, 24}, {3, 25, 26}});
}

TEST(LinearMap, PartsWithoutElements) {
  for (const auto kind :
       {Kind::kAllReduce, Kind::kReduce, Kind::kBroadcast, Kind::kAllGather,
        Kind::kReduceScatter, Kind::kGather, Kind::kScatter, Kind::kAllToAll})
    run_threads(2, [=](const Group& group) {
      LinearMap map{kind, group, {.root = 1}, "test"};
      map.counts = map.received = {0, 0};
      expect_map(applied_map(map, 0), {}, {});
    });
}

TEST(LinearMap, AGroupOfOneRank) {
  for (const auto kind :
       {Kind::kAllReduce, Kind::kReduce, Kind::kBroadcast, Kind::kAllGather,
        Kind::kReduceScatter, Kind::kGather, Kind::kScatter, Kind::kAllToAll})
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg})
      run_threads(1, [=](const Group& group) {
        LinearMap map{kind, group, {.op = op}, "test"};
        map.own_count = 2;
        map.counts = map.received = {2};
        expect_map(applied_map(map, 2), {0, 1}, {1, 2});
      });
}

// The result has memory of its own, and the input is unchanged.
TEST(LinearMap, TheInputMayHaveAnyStrides) {
  run_threads(2, [](const Group& group) {
    const at::Tensor whole = at::arange(6, at::kFloat);
    const at::Tensor flat = whole.slice(0, 0, 6, 2);
    const at::Tensor y = apply({Kind::kAllReduce, group, {}, "test"}, flat);
    EXPECT_TRUE(y.equal(flat * 2));
    EXPECT_TRUE(whole.equal(at::arange(6, at::kFloat)));
    EXPECT_FALSE(y.is_alias_of(whole));
  });
}

TEST(LinearMap, OtherNamesAreAMismatch) {
  const test::ExpectFailures failures;
  for (const test::Outcome& outcome :
       test::outcomes({"a", "a"}, [](const Group& group) {
         apply({Kind::kAllReduce, group, {}, concat("call ", group.rank())},
               at::ones({2}));
       })) {
    EXPECT_EQ(outcome.ending, test::Ending::kMismatch) << outcome;
    EXPECT_TRUE(outcome.names("call 0") && outcome.names("call 1")) << outcome;
  }
}

// The input of rank 1 cannot get a gradient itself.
TEST(LinearMap, ATensorOfInferenceModeTakesPart) {
  run_threads(2, [](const Group& group) {
    at::Tensor x;
    {
      const c10::InferenceMode mode(group.rank() == 1);
      x = at::full({2}, 3.0);
    }
    if (group.rank() == 0) x.requires_grad_();
    const at::Tensor y = apply({Kind::kAllReduce, group, {}, "test"}, x);
    EXPECT_TRUE(y.requires_grad());
    (y * (group.rank() + 1)).sum().backward();
    if (group.rank() == 0) {
      EXPECT_TRUE(x.grad().equal(at::full({2}, 3.0)));
    }
    EXPECT_TRUE((x == 3).all().item<bool>());
  });
}

// Whether describe() knows the name of an agreement of four numbers.
bool is_remembered(const std::string& name) {
  const std::string full = "Long [4] " + name;
  const comm::Fingerprint call{.operation = comm::Operation::kAllReduce,
                               .name_hash = comm::hash_name(full)};
  return comm::describe(call).find(full) != std::string::npos;
}

// The numbers of backward passes grow without end, and so would the memory of
// their names.
TEST(LinearMap, NamesWithNumbersAreNotKept) {
  run_threads(1, [](const Group& group) {
    const at::Tensor x = at::ones({2}).requires_grad_();
    const at::Tensor y = apply({Kind::kAllReduce, group, {}, "kept name"}, x);
    (y * y).sum().backward({}, /*keep_graph=*/true, /*create_graph=*/true);
    x.mutable_grad() = at::Tensor();
  });
  EXPECT_TRUE(is_remembered("kept name"));
  for (int number = 0; number < 5000; ++number)
    EXPECT_FALSE(is_remembered(concat("backward of kept name ", number)));
}

TEST(LinearMap, CountsAreSummedAndCut) {
  EXPECT_EQ(total({}), 0);
  EXPECT_EQ(total({3, 0, 4}), 7);
  const at::Tensor flat = at::arange(7);
  const Tensors cut = parts(flat, {3, 0, 4});
  ASSERT_EQ(cut.size(), 3u);
  EXPECT_TRUE(cut[0].equal(at::arange(3)));
  EXPECT_EQ(cut[1].numel(), 0);
  EXPECT_TRUE(cut[2].equal(at::arange(3, 7)));
  EXPECT_TRUE(parts(flat, {}).empty());
}

}  // namespace
}  // namespace sheaf::tensor::differentiable

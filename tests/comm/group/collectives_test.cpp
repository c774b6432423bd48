// Every operation, type and reduction over ranks as threads.

#include <gtest/gtest.h>

#include "sheaf/comm/group/world.hpp"
#include "tests/support/sweep.hpp"

namespace sheaf::comm {
namespace {

using test::Case;
using test::Memory;

std::vector<DType> all_types() {
  std::vector<DType> types;
  for (int i = 0; i < kDTypeCount; ++i) types.push_back(static_cast<DType>(i));
  return types;
}

void for_all_reductions(const Group& group, Case test) {
  for (const DType dtype : all_types())
    for (int op = 0; op < kReduceOpCount; ++op) {
      test.dtype = dtype;
      test.op = static_cast<ReduceOp>(op);
      if (is_defined(test.op, dtype)) test::check_everything(group, test);
    }
}

void for_all_types(const Group& group, Case test) {
  for (const DType dtype : all_types()) {
    test.dtype = dtype;
    test::check_everything(group, test);
  }
}

// Few sizes are enough: the effect of the size is the same for all reductions.
void check_types_and_reductions(const Group& group) {
  for_all_types(group, {.count = 0});
  for_all_types(group, {.count = 1, .memory = Memory::kArena});
  for_all_reductions(group, {.count = 7});
  for_all_reductions(group, {.count = 1000, .memory = Memory::kArena});
}

class OneHost : public testing::TestWithParam<int> {};

TEST_P(OneHost, EveryTypeAndReduction) {
  run_threads(GetParam(), check_types_and_reductions);
}

// Around the limits of the small path, of a segment and of the staging space.
TEST_P(OneHost, EverySize) {
  run_threads(GetParam(), [](const Group& group) {
    for (const auto memory : {Memory::kPlain, Memory::kArena})
      for (const std::size_t count : {1023, 4096, 4097, 65536, 65537, 300001})
        test::check_large(group, {.count = count, .memory = memory});
  });
}

// More segments than places to stage them in.
TEST_P(OneHost, LargeBuffers) {
  run_threads(GetParam(), [](const Group& group) {
    for (const auto memory : {Memory::kPlain, Memory::kArena})
      test::check_all_reduce(group, {.count = 700000, .memory = memory});
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, OneHost, testing::Values(1, 2, 3, 4, 5, 8));

struct Shape {
  const char* name;
  std::vector<std::string> hosts;
};

class ManyHosts : public testing::TestWithParam<Shape> {};

TEST_P(ManyHosts, EveryTypeAndReduction) {
  run_threads(GetParam().hosts, check_types_and_reductions);
}

TEST_P(ManyHosts, EverySize) {
  run_threads(GetParam().hosts, [](const Group& group) {
    for (const auto memory : {Memory::kPlain, Memory::kArena})
      for (const std::size_t count : {7, 16384, 16385, 100003, 300001})
        test::check_large(group, {.count = count, .memory = memory});
  });
}

TEST_P(ManyHosts, EveryAlgorithm) {
  run_threads(GetParam().hosts, [](const Group& group) {
    for (const auto algorithm : {Algorithm::kRing, Algorithm::kHalving,
                                 Algorithm::kTree, Algorithm::kHierarchical})
      for (const bool reproducible : {false, true})
        for (const std::size_t count : {1, 2, 1000, 300001}) {
          Case test{.count = count};
          test.options.algorithm = algorithm;
          test.options.reproducible = reproducible;
          test::check_all_reduce(group, test);
          test.op = ReduceOp::kAvg;
          test.dtype = DType::kF64;
          test::check_all_reduce(group, test);
        }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ManyHosts,
    testing::Values(Shape{"TwoByOne", {"a", "b"}},
                    Shape{"TwoByTwo", {"a", "a", "b", "b"}},
                    Shape{"Interleaved", {"a", "b", "a", "b"}},
                    Shape{"ThreeByOne", {"a", "b", "c"}},
                    Shape{"ThreeAndTwo", {"a", "a", "a", "b", "b"}},
                    Shape{"OneTwoThree", {"a", "b", "b", "c", "c", "c"}},
                    Shape{"FiveByOne", {"a", "b", "c", "d", "e"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace sheaf::comm

// Every collective over the TCP transport, on loopback.

#include <gtest/gtest.h>

#include "sheaf/comm/group/make_group.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/sweep.hpp"
#include "tests/support/tcp_ranks.hpp"

namespace sheaf::comm {
namespace {

using test::Case;
using test::Memory;

// Rank r is on the host named hosts[r].
void run_tcp(const std::vector<std::string>& hosts,
             const std::function<void(const Group&)>& body) {
  test::run_transports(static_cast<int>(hosts.size()), [&](auto& transport) {
    const auto rank = static_cast<std::size_t>(transport->rank());
    const auto runtime = std::make_shared<Runtime>(
        std::move(transport),
        RuntimeOptions{.options = {},
                       .host = hosts[rank],
                       .arena_bytes = std::size_t{16} << 30});
    const World world(make_world(runtime));
    body(world);
  });
}

class TcpCollectives : public testing::TestWithParam<std::vector<std::string>> {
};

TEST_P(TcpCollectives, EveryTypeAndReduction) {
  run_tcp(GetParam(), [](const Group& group) {
    for (int type = 0; type < kDTypeCount; ++type)
      for (int op = 0; op < kReduceOpCount; ++op) {
        const Case test{.dtype = static_cast<DType>(type),
                        .op = static_cast<ReduceOp>(op),
                        .count = 100};
        if (is_defined(test.op, test.dtype))
          test::check_everything(group, test);
      }
  });
}

TEST_P(TcpCollectives, EverySizeAndAlgorithm) {
  run_tcp(GetParam(), [](const Group& group) {
    for (const auto memory : {Memory::kPlain, Memory::kArena})
      for (const std::size_t count : {0, 1, 4097, 65537, 300001})
        test::check_large(group, {.count = count, .memory = memory});
    for (const auto algorithm : {Algorithm::kRing, Algorithm::kHalving,
                                 Algorithm::kTree, Algorithm::kHierarchical}) {
      Case test{.count = 100003};
      test.options.algorithm = algorithm;
      test::check_all_reduce(group, test);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, TcpCollectives,
    testing::Values(std::vector<std::string>{"a", "b"},
                    std::vector<std::string>{"a", "b", "c"},
                    std::vector<std::string>{"a", "a", "b", "b"}),
    [](const auto& info) {
      std::string name;
      for (const auto& host : info.param) name += host;
      return name;
    });

}  // namespace
}  // namespace sheaf::comm

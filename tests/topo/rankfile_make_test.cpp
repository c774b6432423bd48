#include "sheaf/topo/rankfile.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

TEST(MakeRankFile, NumbersRanksHostByHost) {
  const RankFile file = make_rankfile(parse_dims("2x3"), {"a", "b", "c"}, 8);
  EXPECT_EQ(text_of(file),
            "rank 0=a slot=0-3\nrank 1=a slot=4-7\n"
            "rank 2=b slot=0-3\nrank 3=b slot=4-7\n"
            "rank 4=c slot=0-3\nrank 5=c slot=4-7\n");
}

TEST(MakeRankFile, SharesAreEqualAndLeaveTheRest) {
  EXPECT_EQ(text_of(make_rankfile(parse_dims("3"), {"a"}, 5)),
            "rank 0=a slot=0\nrank 1=a slot=1\nrank 2=a slot=2\n");
}

TEST(MakeRankFile, EveryTopologyPassesTheLinter) {
  for (const char* text : {"1", "4", "4x3", "2x2x2", "6x2x1x1", "3x1x2x2"}) {
    const Dims dims = parse_dims(text);
    std::vector<std::string> names;
    RankFileContext context;
    for (int i = 0; i < dims.product() / dims.sizes[0]; ++i) {
      names.push_back("host" + std::to_string(i));
      context.hosts.push_back({names.back(), {10, 10}});
    }
    context.dims = dims;
    context.ranks = dims.product();
    const auto problems = lint(make_rankfile(dims, names, 20), context);
    EXPECT_TRUE(problems.empty()) << text << "\n" << text_of(problems);
  }
}

TEST(MakeRankFile, NeedsExactlyTheHostsOfTheOtherDimensions) {
  expect_throws<UsageError>(
      [] {
        make_rankfile(parse_dims("4x3"), {"a", "b"}, 8);
      },
      {"4x3", "needs 3 hosts", "2 are given"});
  expect_throws<UsageError>(
      [] {
        make_rankfile(parse_dims("4"), {"a", "b"}, 8);
      },
      {"needs 1 host ", "2 are given"});
  expect_throws<UsageError>(
      [] { make_rankfile(parse_dims("4x8x2"), {"a"}, 8); },
      {"needs 16 hosts", "1 is given"});
}

TEST(MakeRankFile, RefusesTooFewCoresAndRepeatedHosts) {
  expect_throws<UsageError>([] { make_rankfile(parse_dims("4x1"), {"a"}, 3); },
                            {"4 ranks", "3 cores"});
  expect_throws<UsageError>(
      [] {
        make_rankfile(parse_dims("2x2"), {"a", "a"}, 4);
      },
      {"'a'", "twice"});
  expect_throws<UsageError>([] { make_rankfile(Dims{}, {}, 4); }, {"topology"});
}

}  // namespace
}  // namespace sheaf::topo

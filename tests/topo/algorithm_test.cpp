#include "sheaf/topo/algorithm.hpp"

#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

TEST(Algorithm, NamesAreReadBack) {
  for (int i = 0; i < kAlgorithmCount; ++i) {
    const auto algorithm = static_cast<Algorithm>(i);
    EXPECT_EQ(parse_algorithm(name_of(algorithm)), algorithm);
  }
  EXPECT_EQ(parse_algorithm("shm"), Algorithm::kShared);
  EXPECT_EQ(name_of(Algorithm::kMpi), "mpi");
  expect_throws<UsageError>([] { parse_algorithm("rings"); },
                            {"'rings'", "auto, shm, ring, halving, tree"});
}

TEST(Collective, NamesAreReadBack) {
  for (int i = 0; i < kCollectiveCount; ++i) {
    const auto collective = static_cast<Collective>(i);
    EXPECT_EQ(parse_collective(name_of(collective)), collective);
  }
  EXPECT_EQ(parse_collective("allreduce"), Collective::kAllReduce);
  EXPECT_EQ(parse_collective("all_to_all"), Collective::kAllToAll);
  EXPECT_EQ(name_of(Collective::kBarrier), "barrier");
  expect_throws<UsageError>([] { parse_collective(""); }, {"''", "barrier"});
}

}  // namespace
}  // namespace sheaf::topo

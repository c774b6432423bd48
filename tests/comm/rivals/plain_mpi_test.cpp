#include <gtest/gtest.h>

#include "sheaf/comm/group/world.hpp"
#include "sheaf/comm/rivals/rival.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

TEST(PlainMpi, IsRefusedWhereSumsMustBeReproducible) {
  topo::Options options;
  options.reproducible = true;
  run_threads(
      2,
      [](const Group& group) {
        std::vector<float> data(10);
        expect_throws<UsageError>(
            [&] { plain_mpi_all_reduce(group, data, ReduceOp::kSum); },
            {"mpi=true", "-reproducible", "order"});
      },
      options);
}

}  // namespace
}  // namespace sheaf::comm

// Differentiable collectives of processes give the results of one process.

#include "tests/support/world.hpp"
#include "tests/tensor/groups/differentiable_cases.hpp"

namespace sheaf::tensor::differentiable {
namespace {

TEST(DifferentiableRanks, EqualOneProcess) {
  for (const DifferentiableCase& one : differentiable_cases())
    expect_reference(one, test::world());
}

}  // namespace
}  // namespace sheaf::tensor::differentiable

#include "tests/support/sweep.hpp"

#include <set>

namespace sheaf::test {
namespace {

using comm::Group;
using comm::Operation;
using comm::ReduceOp;

bool has_in_place(Operation operation) {
  return operation == Operation::kAllReduce ||
         operation == Operation::kReduce || operation == Operation::kAllGather;
}

// Each variant once, not every combination of them.
void check_variants(Operation operation, const Group& group, Case test) {
  start(operation, group, test)();
  if (has_blocks(operation)) {
    Case unequal = test;
    unequal.is_unequal = true;
    start(operation, group, unequal)();
  }
  if (has_in_place(operation)) {
    Case in_place = test;
    in_place.in_place = true;
    start(operation, group, in_place)();
  }
}

void check(Operation operation, const Group& group, Case test) {
  if (test.op != ReduceOp::kSum && !is_reducing(operation)) return;
  std::set<int> roots{0};
  if (has_root(operation)) roots = {group.size() / 2, group.size() - 1};
  for (const int root : roots) {
    test.options.root = root;
    check_variants(operation, group, test);
  }
}

}  // namespace

void check_all_reduce(const Group& group, Case test) {
  check_variants(Operation::kAllReduce, group, test);
}

void check_everything(const Group& group, const Case& test) {
  for (const Operation operation : operations()) check(operation, group, test);
}

void check_large(const Group& group, const Case& test) {
  const auto ranks = static_cast<std::size_t>(group.size());
  for (const Operation operation : operations()) {
    Case shared = test;
    // One rank stages one gathered block.
    if (has_blocks(operation) && operation != Operation::kAllGather)
      shared.count = test.count / ranks;
    check(operation, group, shared);
  }
}

}  // namespace sheaf::test

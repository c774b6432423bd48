// The main of tests that run on real ranks: every rank runs every test. Rank 0
// prints as usual; the others print failures only.

#include <gtest/gtest.h>

#include <memory>

#include "sheaf/comm/group/world.hpp"
#include "tests/support/world.hpp"

namespace {

const sheaf::comm::Group* the_world = nullptr;

class OnlyFailures : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "[rank %d] %s:%d: %s\n", the_world->rank(),
                   result.file_name() ? result.file_name() : "?",
                   result.line_number(), result.summary());
  }
};

}  // namespace

namespace sheaf::test {

const comm::Group& world() { return *the_world; }

}  // namespace sheaf::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto world = sheaf::comm::init(&argc, &argv);
  the_world = &world.group();
  if (world.rank() != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new OnlyFailures);
  }
  return RUN_ALL_TESTS();
}

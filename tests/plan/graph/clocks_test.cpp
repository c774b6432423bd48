#include <gtest/gtest.h>

#include "sheaf/plan/graph/measured_step.hpp"

namespace sheaf::plan {
namespace {

StepGraph with_collectives(std::vector<Span> spans) {
  StepGraph graph;
  for (const Span& span : spans)
    graph.collectives.push_back({"all_reduce", 8, span});
  return graph;
}

// The second rank's clock is 1000 ahead; it is late for the second collective.
TEST(Clocks, AreComparedByTheEndsOfCollectives) {
  const StepGraph first =
      with_collectives({{100, 200}, {300, 500}, {600, 650}});
  const StepGraph second =
      with_collectives({{1050, 1201}, {1450, 1500}, {1590, 1650}});
  EXPECT_EQ(clock_offsets({&first, &second}),
            (std::vector<std::int64_t>{0, 1000}));
  EXPECT_EQ(collective_ns({&first, &second}),
            (std::vector<std::int64_t>{101, 50, 50}));
  const StepGraph none;
  EXPECT_EQ(clock_offsets({&none, &none}), (std::vector<std::int64_t>{0, 0}));
}

}  // namespace
}  // namespace sheaf::plan

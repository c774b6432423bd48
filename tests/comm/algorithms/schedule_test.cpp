#include "sheaf/comm/algorithms/schedule.hpp"

#include <gtest/gtest.h>

namespace sheaf::comm {
namespace {

TEST(Schedule, PartsCoverARangeAndDifferByOne) {
  for (int parts = 1; parts <= 17; ++parts)
    for (const std::size_t count : {0, 1, 5, 16, 100}) {
      std::size_t at = 7;
      for (int i = 0; i < parts; ++i) {
        const Range part = chunk_of({7, count}, i, parts);
        EXPECT_EQ(part.begin, at);
        EXPECT_LE(part.count, count / static_cast<std::size_t>(parts) + 1);
        at += part.count;
      }
      EXPECT_EQ(at, 7 + count);
    }
}

}  // namespace
}  // namespace sheaf::comm

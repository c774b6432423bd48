#include "sheaf/train/config/strategy_kind.hpp"

#include <gtest/gtest.h>

#include "sheaf/train/config/config.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::train {
namespace {

TEST(StrategyKind, NamesAreReadBack) {
  for (const std::string_view name : kStrategyNames)
    EXPECT_EQ(name_of(parse_strategy(name)), name);
  EXPECT_EQ(parse_strategy("rank-dad"), StrategyKind::kRankDad);
  EXPECT_EQ(parse_strategy("none"), StrategyKind::kNone);
}

TEST(StrategyKind, UnknownNamesAreRejectedWithTheKnownOnes) {
  expect_throws<UsageError>([] { parse_strategy("dat"); },
                            {"'dat'", "data", "spatial"});
}

TEST(StrategyKind, ConfigsPrintTheName) {
  const auto config =
      parse_config("parallel: {strategy: rank-dad}", "a.yaml", {});
  EXPECT_EQ(config.parallel.strategy, StrategyKind::kRankDad);
  EXPECT_NE(print_config(config).find("strategy: rank-dad\n"),
            std::string::npos);
}

TEST(StrategyKind, FamiliesAreDisjoint) {
  for (const std::string_view name : kStrategyNames) {
    const StrategyKind kind = parse_strategy(name);
    EXPECT_EQ(splits_images(kind), name == "spatial");
    EXPECT_EQ(exchanges_factors(kind), name == "dad" || name == "edad" ||
                                           name == "rank-dad" ||
                                           name == "auto");
  }
}

}  // namespace
}  // namespace sheaf::train

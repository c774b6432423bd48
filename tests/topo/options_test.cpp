#include "sheaf/topo/options.hpp"

#include <cstdlib>

#include "tests/support/environment.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

TEST(Options, AnEmptyTextGivesTheDefaults) {
  EXPECT_EQ(parse_options(""), Options{});
  EXPECT_EQ(parse_options("  \t "), Options{});
  EXPECT_EQ(Options{}.mode, Mode::kBest);
}

TEST(Options, ReadsDdlsString) {
  const Options options =
      parse_options("-mode b:4x3 -dump_iter 100 -dbg_level 1");
  EXPECT_EQ(options.mode, Mode::kBest);
  EXPECT_EQ(options.dims, parse_dims("4x3"));
  EXPECT_EQ(options.dump_iter, 100);
  EXPECT_EQ(options.dbg_level, 1);
}

TEST(Options, ReadsEveryMode) {
  EXPECT_EQ(parse_options("-mode r:4").mode, Mode::kRing);
  EXPECT_EQ(parse_options("-mode m").mode, Mode::kMpi);
  EXPECT_EQ(parse_options("-mode n:4x3").mode, Mode::kNccl);
  EXPECT_EQ(parse_options("-mode b:2x1").mode, Mode::kBest);
  const Options explore = parse_options("-mode p:6x2x1x1");
  EXPECT_EQ(explore.mode, Mode::kExplore);
  EXPECT_EQ(explore.dims->product(), 12);
}

TEST(Options, DimensionsMayBeMissing) {
  EXPECT_FALSE(parse_options("-mode b").dims.has_value());
  expect_throws<UsageError>([] { parse_options("-mode b:"); },
                            {"empty topology"});
}

TEST(Options, ReadsSheafsOwn) {
  const Options options = parse_options(
      "-reproducible -algorithm ring -timeout 30s -machine m.json");
  EXPECT_TRUE(options.reproducible);
  EXPECT_EQ(options.algorithm, "ring");
  EXPECT_EQ(options.timeout_ms, 30'000);
  EXPECT_EQ(options.machine, "m.json");
}

TEST(Options, RefusesUnknownModes) {
  expect_throws<UsageError>([] { parse_options("-mode c:4x3"); },
                            {"mode c", "never documented publicly", "b", "p"});
  expect_throws<UsageError>([] { parse_options("-mode x:4"); },
                            {"unknown mode 'x'", "r (ring)"});
  expect_throws<UsageError>([] { parse_options("-mode :4"); },
                            {"unknown mode ''"});
  expect_throws<UsageError>([] { parse_options("-mode bp:4"); }, {"'bp'"});
}

TEST(Options, SaysWhyGpuOptionsHaveNoCounterpart) {
  expect_throws<UsageError>([] { parse_options("-dev_sync 1"); },
                            {"-dev_sync", "GPU", "no equivalent"});
  expect_throws<UsageError>([] { parse_options("-rebind_iter 10"); },
                            {"-rebind_iter", "GPU", "no equivalent"});
}

TEST(Options, NamesTheNearestKnownOption) {
  expect_throws<UsageError>([] { parse_options("-dumpiter 5"); },
                            {"'-dumpiter'", "did you mean '-dump_iter'?"});
  expect_throws<UsageError>([] { parse_options("--mode b"); },
                            {"did you mean '-mode'?"});
  expect_throws<UsageError>([] { parse_options("-zzzzzzzzzzzzzzz"); },
                            {"unknown option", "use one of -mode"});
  expect_throws<UsageError>([] { parse_options("b:4x3"); }, {"unknown option"});
}

TEST(Options, RefusesMissingRepeatedAndWrongValues) {
  expect_throws<UsageError>([] { parse_options("-mode"); },
                            {"-mode needs a value"});
  expect_throws<UsageError>([] { parse_options("-dump_iter -mode b"); },
                            {"-dump_iter needs a value"});
  expect_throws<UsageError>([] { parse_options("-mode b -mode r"); },
                            {"-mode is given twice"});
  expect_throws<UsageError>([] { parse_options("-dbg_level 3"); },
                            {"-dbg_level", "'3'", "0 to 2"});
  expect_throws<UsageError>([] { parse_options("-dump_iter -5"); },
                            {"-dump_iter", "'-5'", ">= 0"});
  expect_throws<UsageError>([] { parse_options("-dump_iter 1e3"); }, {"'1e3'"});
}

TEST(Options, TextIsReadBackAsTheSame) {
  for (const char* text :
       {"", "-mode p:6x2x1x1", "-mode r -dump_iter 7 -dbg_level 2",
        "-reproducible -algorithm tree -timeout 5m -machine a/b.json"}) {
    const Options options = parse_options(text);
    EXPECT_EQ(parse_options(text_of(options)), options) << text;
  }
}

TEST(Options, Timeouts) {
  EXPECT_EQ(parse_options("-timeout 500ms").timeout_ms, 500);
  EXPECT_EQ(parse_options("-timeout 30s").timeout_ms, 30'000);
  EXPECT_EQ(parse_options("-timeout 5m").timeout_ms, 300'000);
  for (const char* wrong : {"30", "s", "-3s", "3sec"})
    expect_throws<UsageError>(
        [&] { parse_options(concat("-timeout ", wrong)); }, {wrong});
  for (const char* outside : {"0s", "10us", "597h"})
    expect_throws<UsageError>(
        [&] { parse_options(concat("-timeout ", outside)); },
        {"-timeout", outside, "1ms", "596h"});
}

TEST(OptionsEnvironment, ReadsTheVariable) {
  const test::ScopedVariables variables({"SHEAF_OPTIONS"});
  EXPECT_EQ(options_from_environment(), Options{});
  variables.set({{"SHEAF_OPTIONS", "-mode r:8"}});
  EXPECT_EQ(options_from_environment().mode, Mode::kRing);
}

TEST(OptionsEnvironment, AnErrorNamesTheVariable) {
  const test::ScopedVariable variable("SHEAF_OPTIONS", "-mode q");
  expect_throws<UsageError>([] { options_from_environment(); },
                            {"SHEAF_OPTIONS='-mode q'", "unknown mode 'q'"});
}

}  // namespace
}  // namespace sheaf::topo

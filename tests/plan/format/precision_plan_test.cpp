#include "sheaf/plan/format/precision_plan.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

using enum Precision;

TEST(PrecisionPlan, NamesAreReadBack) {
  for (const Precision precision : {kF32, kTf32, kBf16, kF16, kInt8})
    EXPECT_EQ(parse_precision(to_string(precision)), precision);
  EXPECT_STREQ(to_string(kInt8), "int8");
  for (const char* wrong : {"", "F32", "fp16", "f16 "})
    expect_throws<UsageError>(
        [&] { parse_precision(wrong); },
        {"\"" + std::string(wrong) + "\"", "f32, tf32, bf16, f16 or int8"});
}

TEST(PrecisionPlan, LayersThatAreNotNamedHaveTheOther) {
  const PrecisionPlan plan = parse_precision_plan(
      R"({"precision": {"other": "bf16", "layers": {"a": "f16"}}})", "p");
  EXPECT_EQ(plan.of("a"), kF16);
  EXPECT_EQ(plan.of("a.b"), kBf16);
  EXPECT_EQ(PrecisionPlan{}.of("a"), kF32);
  EXPECT_EQ(parse_precision_plan(R"({"precision": {"layers": {}}})", "p").other,
            kF32);
}

TEST(PrecisionPlan, ADeviceHasItsOwnPrecisions) {
  const std::string text =
      R"({"precision": {"layers": {"a": "f16"}}, "devices": [)"
      R"({"device": "x", "precision": {"layers": {"a": "int8"}}},)"
      R"({"device": "y", "precision": {"other": "tf32", "layers": {}}}]})";
  EXPECT_EQ(parse_precision_plan(text, "p").of("a"), kF16);
  EXPECT_EQ(parse_precision_plan(text, "p", "x").of("a"), kInt8);
  EXPECT_EQ(parse_precision_plan(text, "p", "y").of("a"), kTf32);
  EXPECT_EQ(parse_precision_plan(text, "p", "z").of("a"), kF16);
}

TEST(PrecisionPlan, APrecisionIsAPlanForAllLayers) {
  const PrecisionPlan plan = read_precision_plan("bf16");
  EXPECT_EQ(plan.other, kBf16);
  EXPECT_TRUE(plan.layers.empty());
  EXPECT_EQ(parse_precision_plan(read_plan_text("int8"), "int8").other, kInt8);
}

TEST(PrecisionPlan, ErrorsNameTheKey) {
  const auto error = [](const std::string& text) {
    return error_of<IoError>([&] { parse_precision_plan(text, "p.json"); });
  };
  EXPECT_EQ(error(R"({"precision": {"layers": {"a.b": 3}}})"),
            "p.json: key 'precision.layers.a.b' must be a string, not 3; the "
            "file is not a plan, or damaged; write it with sheaf plan");
  EXPECT_NE(error(R"({"precision": {"layers": {"a": "f8"}}})")
                .find("key 'precision.layers.a' is \"f8\"; use f32"),
            std::string::npos);
  EXPECT_NE(error(R"({"precision": {"layers": {"a": "f16", "a": "f32"}}})")
                .find("'a' is given twice"),
            std::string::npos);
  EXPECT_NE(error(std::string(1 << 20, '[')).find("nested deeper"),
            std::string::npos);
}

TEST(PrecisionPlan, FilesThatAreNoPlansAreNamed) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "plan.json";
  for (const char* text :
       {"", "{}", "[]", R"({"precision": {}})",
        R"({"precision": {"layers": {"a": 3}}})",
        R"({"precision": {"layers": {"a": "f8"}}})",
        R"({"precision": {"layers": {}}, "devices": [{}]})"}) {
    std::ofstream(path) << text;
    expect_throws<IoError>([&] { read_precision_plan(path, "x"); },
                           {path.string()});
  }
  expect_throws<IoError>([&] { read_precision_plan(folder.path() / "none"); },
                         {"none"});
}

}  // namespace
}  // namespace sheaf::plan

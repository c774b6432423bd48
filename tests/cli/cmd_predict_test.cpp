#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/call_sheaf.hpp"
#include "tests/plan/trace/trace_text.hpp"

namespace sheaf::cli {
namespace {

class PredictCommand : public testing::Test {
 protected:
  PredictCommand() {
    for (int i = 0; i < 2; ++i) {
      const double begin = i * 200.0;
      text_.step(4 + i, begin, 100 + 50 * i);
      text_.op("aten::linear", 1, begin + 10, 20, i);
      text_.kernel(1, begin + 15, 7, begin + 24, 30);
      text_.op("autograd::engine::evaluate_function: AddmmBackward0", 1,
               begin + 60, 20, i == 0 ? 0 : 99);
    }
  }
  plan::TraceText text_;
};

TEST_F(PredictCommand, ReplaysEachStep) {
  const std::string path = text_.write().string();
  const CallOutcome shown = call_sheaf({"predict", path, "--unmatched"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  for (const char* part :
       {"rank 1 of 2, GPU", "2 steps", "0 of 1 backward functions matched",
        "not matched: autograd::engine::evaluate_function: AddmmBackward0",
        "number 99", "ProfilerStep#4", "ProfilerStep#5"})
    EXPECT_TRUE(has(shown.out, part)) << part << " in\n" << shown.out;
}

TEST_F(PredictCommand, PredictsStepsOutOfOne) {
  const CallOutcome shown =
      call_sheaf({"predict", text_.write_compressed().string(), "--from", "4",
                  "--format", "json"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  const auto second =
      nlohmann::json::parse(shown.out.substr(shown.out.find('\n') + 1));
  EXPECT_NEAR(second["measured_ms"], 0.15, 1e-9);
  EXPECT_NEAR(second["predicted_ms"], 0.1, 1e-9);
  EXPECT_NEAR(second["error_percent"], -100.0 / 3, 1e-6);
}

TEST_F(PredictCommand, UsageErrorsAreReported) {
  const std::string path = text_.write().string();
  const CallOutcome shown = call_sheaf({"predict", path, "--from", "9"});
  EXPECT_EQ(shown.code, 2);
  EXPECT_TRUE(has(shown.err, "no step 9; its steps are ProfilerStep#4, "))
      << shown.err;
  EXPECT_NE(call_sheaf({"predict", path + "x"}).code, 0);
}

}  // namespace
}  // namespace sheaf::cli

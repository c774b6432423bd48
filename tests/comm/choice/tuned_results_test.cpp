#include "sheaf/comm/choice/tuned_results.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

TEST(TunedResults, ReadWhatTheyWrite) {
  TunedResults results;
  results.set({"4x2", DType::kF32, 1024}, "ring", 1.5);
  results.set({"4x2", DType::kBF16, 2048}, "tree", 2);
  const TunedResults read = TunedResults::parse(results.text(), "t.json");
  EXPECT_EQ(read.size(), 2u);
  EXPECT_EQ(read.find({"4x2", DType::kF32, 1024}), "ring");
  EXPECT_EQ(read.find({"4x2", DType::kF32, 2048}), std::nullopt);
  EXPECT_EQ(read.text(), results.text());
}

TEST(TunedResults, ErrorsNameTheFileAndTheKey) {
  const auto is_reported = [](const std::string& text,
                              const std::string& part) {
    expect_throws<IoError>([&] { TunedResults::parse(text, "t.json"); },
                           {"t.json", part});
  };
  const auto with = [](const std::string& topologies) {
    return R"({"schema": "sheaf.tuned.1", "topologies": )" + topologies + "}";
  };
  is_reported("", "invalid JSON");
  is_reported("[]", "must be an object");
  is_reported(R"({"schema": 1})", "key 'schema' must be a string");
  is_reported(R"({"schema": "sheaf.tuned.0"})", "another version");
  is_reported(with("[]"), "key 'topologies'");
  is_reported(with(R"({"a": 1})"), "key 'topologies.a'");
  is_reported(with(R"({"a": {"f32": {"1K": {}}}})"),
              "key 'topologies.a.f32.1K.choice' is missing");
  is_reported(with(R"({"a": {"f32": {"1K": {"choice": "x"}}}})"), "time_us");
  is_reported(with(std::string(1 << 20, '[')), "nested deeper");
}

}  // namespace
}  // namespace sheaf::comm

#include "sheaf/plan/format/exchange_plan.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

TEST(ExchangePlan, TextRoundTrips) {
  for (const char* text : {"gradients", "half", "dad", "edad", "rank-dad:4",
                           "rank-dad:9", "gradients,fc1=dad,fc2=edad",
                           "half,fc1=rank-dad:8,fc2=dad", "dad,fc1=gradients"})
    EXPECT_EQ(to_string(parse_exchange(text)), text);
  EXPECT_EQ(parse_exchange("low_rank:3"), parse_exchange("rank-dad:3"));
  const ExchangePlan plan = parse_exchange("a=b=dad");
  EXPECT_EQ(plan.of("a=b"), Route::kDad);
  EXPECT_EQ(plan.of("other"), Route::kGradients);
  EXPECT_EQ(parse_exchange("dad,fc=half").bulk(), Route::kHalf);
  EXPECT_TRUE(parse_exchange("gradients,fc=edad").has_any_factors());
  EXPECT_FALSE(parse_exchange("half").has_any_factors());
}

TEST(ExchangePlan, InvalidPlansAreErrors) {
  const auto is_reported = [](const char* text, const char* part) {
    expect_throws<UsageError>([&] { parse_exchange(text); }, {part});
  };
  is_reported("", "unknown exchange \"\"");
  is_reported("dda", "use gradients, half, dad, edad or rank-dad");
  is_reported("fc=quarter", "\"quarter\"");
  is_reported("dad,edad", "two defaults");
  is_reported("gradients,fc=half", "for all layers or for none");
  is_reported("dad:3", "only rank-dad has a rank");
  is_reported("rank-dad:0", "at least 1, not \"0\"");
  is_reported("rank-dad:", "at least 1");
  is_reported("rank-dad:4,fc=rank-dad:5", "4 and 5");
}

TEST(ExchangePlan, OfAFile) {
  EXPECT_FALSE(parse_exchange_of(R"({"precision": {}})", "plan.json"));
  const auto plan = parse_exchange_of(
      R"({"exchange": {"default": "half", "layers": {"fc": "rank-dad:2"}}})",
      "plan.json");
  ASSERT_TRUE(plan);
  EXPECT_EQ(to_string(*plan), "half,fc=rank-dad:2");
  EXPECT_NE(
      error_of<IoError>([] {
        parse_exchange_of(R"({"exchange": {"layers": {"fc": "all"}}})",
                          "plan.json");
      })
          .find("plan.json: key 'exchange.layers.fc' is not valid: unknown "
                "exchange"),
      std::string::npos);
  for (const char* damaged :
       {"{", R"({"exchange": []})", R"({"exchange": {"default": "all"}})",
        R"({"exchange": {"layers": {"fc": 3}}})"})
    expect_throws<IoError>([&] { parse_exchange_of(damaged, "plan.json"); },
                           {"plan.json"});
}

RouteFile parsed(const std::string& text) {
  return parse_route_file(text, "dad_plan.json", {"gradient", "dad"});
}

TEST(RouteFile, ReadsWhatItWrites) {
  const RouteFile routes{{{"fc1.weight", "dad"}, {"fc2.weight", "gradient"}},
                         true};
  const RouteFile read = parsed(text_of(routes));
  EXPECT_EQ(read.by_parameter, routes.by_parameter);
  EXPECT_TRUE(read.skips_zeros);
  EXPECT_NO_THROW(text_of({{{"\xff", "dad"}}, false}));
}

TEST(RouteFile, ErrorsNameTheKey) {
  const auto is_reported = [](const std::string& text,
                              const std::string& part) {
    expect_throws<UsageError>(
        [&] { parsed(text); },
        {"dad_plan.json", part, "give the dad_plan.json"});
  };
  is_reported("{}", "'skips_zeros' is missing");
  is_reported("[]", "must be an object");
  is_reported("{", "invalid JSON");
  is_reported(R"({"skips_zeros": 1})", "must be true or false");
  is_reported(R"({"skips_zeros": true, "routes": []})", "'routes'");
  is_reported(R"({"skips_zeros": true, "routes": {"a": 1}})", "'routes.a'");
  is_reported(R"({"skips_zeros": true, "routes": {"a": "fast"}})",
              "key 'routes.a' is 'fast', which is not a route; use gradient");
  is_reported(std::string(1 << 20, '['), "nested deeper");
}

}  // namespace
}  // namespace sheaf::plan

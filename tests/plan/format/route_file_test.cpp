#include "sheaf/plan/format/route_file.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

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

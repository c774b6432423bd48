// Plans: plan.json (precisions and exchange) and dad_plan.json (routes).
// parser: sheaf/plan/format/exchange_plan.cpp
// parser: sheaf/plan/format/precision_plan.cpp
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/plan/format/precision_plan.hpp"
#include "tests/fuzz/byte_source.hpp"

namespace sheaf {
namespace {

template <class Use>
void attempt(Use use) {
  try {
    use();
  } catch (const Error&) {
  }
}

}  // namespace

SHEAF_FUZZ_TARGET(plan) {
  const std::string text(fuzz::text_of(input));
  attempt([&] { plan::parse_precision_plan(text, "plan.json"); });
  attempt([&] { plan::parse_precision_plan(text, "plan.json", "Tesla T4"); });
  attempt([&] {
    const auto plan = plan::parse_exchange_of(text, "plan.json");
    if (!plan) return;
    plan->bulk();
    plan::to_string(*plan);
    plan::check_exchange_layers(*plan, {"fc1", "layer1.0.conv2"});
  });
  attempt([&] {
    plan::text_of(plan::parse_route_file(text, "dad_plan.json",
                                         {"gradient", "dad", "edad"}));
  });
}

}  // namespace sheaf

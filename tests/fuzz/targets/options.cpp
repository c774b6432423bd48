// Short texts: option strings, topologies, node lists, sizes, durations,
// numbers. Every parser reads the whole input.
// parser: sheaf/topo/options.cpp sheaf/topo/dims.cpp sheaf/topo/algorithm.cpp
// parser: sheaf/base/units.cpp sheaf/halo/grid.cpp
// parser: sheaf/comm/transport/node_list.cpp sheaf/plan/trace/trace_numbers.cpp
// parser: sheaf/plan/format/exchange_plan.cpp
#include "sheaf/topo/options.hpp"

#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/comm/transport/launch_environment.hpp"
#include "sheaf/halo/grid.hpp"
#include "sheaf/plan/format/exchange_plan.hpp"
#include "sheaf/plan/format/precision_plan.hpp"
#include "sheaf/plan/trace/trace_numbers.hpp"
#include "sheaf/topo/algorithm.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace sheaf {
namespace {

template <class Use>
void attempt(Use use) {
  try {
    use();
  } catch (const Error&) {
  }
}

// What was read is written such that it reads back.
void read_and_write(const std::string& text) {
  attempt([&] {
    const topo::Options options = topo::parse_options(text);
    SHEAF_FUZZ_CHECK(topo::parse_options(topo::text_of(options)) == options);
  });
  attempt([&] {
    const topo::Dims dims = topo::parse_dims(text);
    SHEAF_FUZZ_CHECK(topo::parse_dims(dims.text()) == dims &&
                     dims.product() >= 1);
    topo::check_fits(dims, 12);
  });
  attempt([&] {
    const std::uint64_t bytes = parse_bytes(text);
    SHEAF_FUZZ_CHECK(parse_bytes(format_bytes_exactly(bytes)) == bytes);
    format_bytes(bytes);
  });
  attempt([&] {
    const plan::ExchangePlan plan = plan::parse_exchange(text);
    SHEAF_FUZZ_CHECK(plan::parse_exchange(plan::to_string(plan)).other ==
                     plan.other);
  });
}

}  // namespace

SHEAF_FUZZ_TARGET(options) {
  const std::string text(fuzz::text_of(input));
  read_and_write(text);
  attempt([&] { format_duration(parse_duration(text)); });
  attempt([&] { topo::parse_algorithm(text); });
  attempt([&] { halo::Grid::parse(text); });
  attempt([&] { comm::expand_node_list(text); });
  attempt([&] { plan::parse_precision(text); });
  plan::parse_nanoseconds(text);
  plan::parse_integer(text);
  parse_count(text);
  SHEAF_FUZZ_CHECK(find_not_text(printable(text)) == std::string::npos);
}

}  // namespace sheaf

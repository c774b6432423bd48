// Lists and files of hosts.
// parser: sheaf/topo/host_list.cpp
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/topo/host_list.hpp"
#include "tests/fuzz/byte_source.hpp"

namespace sheaf {

SHEAF_FUZZ_TARGET(hosts) {
  const std::string_view text = fuzz::text_of(input);
  try {
    topo::total_slots(topo::parse_host_list(text));
  } catch (const Error&) {
  }
  try {
    topo::total_slots(topo::parse_host_file(text, "hosts"));
  } catch (const Error&) {
  }
}

}  // namespace sheaf

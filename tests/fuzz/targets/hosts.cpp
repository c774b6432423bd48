// Lists and files of hosts.
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/topo/host_list.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sheaf {

SHEAF_FUZZ_TARGET(hosts) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()),
                              input.size());
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

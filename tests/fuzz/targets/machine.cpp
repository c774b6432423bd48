// machine.json.
#include "sheaf/topo/machine.hpp"

#include <cstdlib>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sheaf {

SHEAF_FUZZ_TARGET(machine) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()),
                              input.size());
  try {
    const topo::Machine machine = topo::parse_machine(text, "machine.json");
    // What was read is written such that it reads back.
    if (topo::parse_machine(topo::text_of(machine), "again") != machine)
      std::abort();
  } catch (const Error&) {
  }
}

}  // namespace sheaf

// machine.json.
// parser: sheaf/topo/machine.cpp sheaf/base/json_file.cpp
#include "sheaf/topo/machine.hpp"

#include <string_view>

#include "sheaf/base/error.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace sheaf {

SHEAF_FUZZ_TARGET(machine) {
  const std::string_view text = fuzz::text_of(input);
  try {
    const topo::Machine machine = topo::parse_machine(text, "machine.json");
    // What was read is written such that it reads back.
    SHEAF_FUZZ_CHECK(topo::parse_machine(topo::text_of(machine), "again") ==
                     machine);
  } catch (const Error&) {
  }
}

}  // namespace sheaf

// tuned.json.
// parser: sheaf/comm/choice/tuned_results.cpp
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/choice/tuned_results.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace sheaf {

SHEAF_FUZZ_TARGET(tuned) {
  const std::string_view text = fuzz::text_of(input);
  const comm::TunedKey key{"mpi 2x2", DType::kF32, 1024};
  try {
    auto results = comm::TunedResults::parse(text, "tuned.json");
    results.find(key);
    results.set(key, "ring", 1.5);
    const auto again = comm::TunedResults::parse(results.text(), "again");
    SHEAF_FUZZ_CHECK(again.size() == results.size() &&
                     again.find(key) == "ring");
  } catch (const Error&) {
  }
}

}  // namespace sheaf

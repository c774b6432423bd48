// tuned.json.
#include <cstdlib>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/choice/tuned_results.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sheaf {

SHEAF_FUZZ_TARGET(tuned) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()),
                              input.size());
  const comm::TunedKey key{"mpi 2x2", DType::kF32, 1024};
  try {
    auto results = comm::TunedResults::parse(text, "tuned.json");
    results.find(key);
    results.set(key, "ring", 1.5);
    const auto again = comm::TunedResults::parse(results.text(), "again");
    if (again.size() != results.size() || again.find(key) != "ring")
      std::abort();
  } catch (const Error&) {
  }
}

}  // namespace sheaf

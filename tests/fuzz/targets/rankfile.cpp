// Rank files, and the check of them with and without hosts of known shape.
#include "sheaf/topo/rankfile.hpp"

#include <cstdlib>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"

namespace sheaf {

SHEAF_FUZZ_TARGET(rankfile) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()),
                              input.size());
  const topo::RankFileContext known{
      {{"a", {4, 4}}, {"b", {}}, {"c", {2147483647}}}, 4, topo::Dims{{2, 2}}};
  try {
    std::vector<topo::Diagnostic> faults;
    const topo::RankFile file = topo::parse_rankfile(text, "ranks", faults);
    topo::text_of(faults);
    topo::text_of(topo::lint(file, known));
    topo::text_of(topo::lint(file, {}));
    // What was read is written such that it reads back.
    const topo::RankFile again =
        topo::parse_rankfile(topo::text_of(file), "again", faults);
    if (faults.empty() && topo::text_of(again) != topo::text_of(file))
      std::abort();
  } catch (const Error&) {
  }
}

}  // namespace sheaf

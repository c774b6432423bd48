// Rank files, and the check of them with and without hosts of known shape.
// parser: sheaf/topo/rankfile.cpp sheaf/topo/rankfile_lint.cpp
#include "sheaf/topo/rankfile.hpp"

#include <string_view>

#include "sheaf/base/error.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace sheaf {

SHEAF_FUZZ_TARGET(rankfile) {
  const std::string_view text = fuzz::text_of(input);
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
    SHEAF_FUZZ_CHECK(!faults.empty() ||
                     topo::text_of(again) == topo::text_of(file));
  } catch (const Error&) {
  }
}

}  // namespace sheaf

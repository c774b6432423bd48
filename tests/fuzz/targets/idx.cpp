#include "sheaf/formats/arrays/idx.hpp"

#include <vector>

#include "sheaf/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"

SHEAF_FUZZ_TARGET(idx) {
  using namespace sheaf::formats;
  try {
    const IdxArray array = parse_idx(view_bytes("input", input));
    std::vector<std::uint8_t> elements(array.elements().size());
    copy_elements(array, elements.data());
    check_idx_counts(array, array);
    check_idx_labels(array, 10);
  } catch (const sheaf::Error&) {
  }
}

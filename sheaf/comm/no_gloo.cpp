#include "sheaf/base/error.hpp"
#include "sheaf/comm/baseline.hpp"

namespace sheaf::comm {

bool has_gloo_baseline() { return false; }

std::unique_ptr<BaselineLibrary> make_gloo_baseline(const GlooOptions&) {
  throw UsageError(
      "Sheaf was built without Gloo, so there is none to compare with; "
      "install it (Debian: libgloo-dev) and configure again");
}

}  // namespace sheaf::comm

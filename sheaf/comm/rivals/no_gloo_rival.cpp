#include "sheaf/base/error.hpp"
#include "sheaf/comm/rivals/rival.hpp"

namespace sheaf::comm {

void check_gloo_baseline(const BaselineCall&) {
  throw UsageError(
      "Sheaf was built without Gloo and cannot compare with it; "
      "install it (Debian: libgloo-dev) and configure again");
}

std::unique_ptr<BaselineLibrary> make_gloo_baseline(const GlooOptions&) {
  check_gloo_baseline({});
  return nullptr;
}

}  // namespace sheaf::comm

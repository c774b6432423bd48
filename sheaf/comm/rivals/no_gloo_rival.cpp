#include "sheaf/base/error.hpp"
#include "sheaf/comm/rivals/rival.hpp"

namespace sheaf::comm {

void check_gloo_rival(const RivalCall&) {
  throw UsageError(
      "Sheaf was built without Gloo and cannot compare with it; "
      "install it (Debian: libgloo-dev) and configure again");
}

std::unique_ptr<RivalLibrary> make_gloo_rival(const GlooOptions&) {
  check_gloo_rival({});
  return nullptr;
}

}  // namespace sheaf::comm

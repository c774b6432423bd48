#include "sheaf/base/error.hpp"
#include "sheaf/comm/rivals/rival.hpp"

namespace sheaf::comm {

void check_mpi_rival(const RivalCall&) {
  throw UsageError(
      "Sheaf was built without MPI and cannot compare with it; "
      "configure with -DSHEAF_WITH_MPI=ON");
}

std::unique_ptr<RivalLibrary> make_mpi_rival() {
  check_mpi_rival({});
  return nullptr;
}

}  // namespace sheaf::comm

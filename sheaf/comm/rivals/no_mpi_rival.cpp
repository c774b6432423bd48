#include "sheaf/base/error.hpp"
#include "sheaf/comm/rivals/rival.hpp"

namespace sheaf::comm {

void check_mpi_baseline(const BaselineCall&) {
  throw UsageError(
      "Sheaf was built without MPI and cannot compare with it; "
      "configure with -DSHEAF_WITH_MPI=ON");
}

std::unique_ptr<BaselineLibrary> make_mpi_baseline() {
  check_mpi_baseline({});
  return nullptr;
}

}  // namespace sheaf::comm

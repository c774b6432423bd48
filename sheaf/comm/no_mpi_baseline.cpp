#include "sheaf/base/error.hpp"
#include "sheaf/comm/baseline.hpp"

namespace sheaf::comm {

bool has_mpi_baseline() { return false; }

std::unique_ptr<BaselineLibrary> make_mpi_baseline() {
  throw UsageError(
      "Sheaf was built without MPI, so there is none to compare with; "
      "configure with -DSHEAF_WITH_MPI=ON");
}

}  // namespace sheaf::comm

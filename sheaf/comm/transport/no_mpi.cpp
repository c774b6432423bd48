#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/transport.hpp"

namespace sheaf::comm {

std::unique_ptr<Transport> make_mpi_transport(int*, char***) {
  throw UsageError(
      "this program was started by an MPI launcher, but Sheaf was built "
      "without MPI; configure with -DSHEAF_WITH_MPI=ON");
}

}  // namespace sheaf::comm

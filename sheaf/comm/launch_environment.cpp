#include <cstdlib>

#include "sheaf/comm/transport.hpp"

namespace sheaf::comm {

bool is_under_mpi_launcher() {
  for (const char* variable :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK"})
    if (std::getenv(variable)) return true;
  return false;
}

}  // namespace sheaf::comm

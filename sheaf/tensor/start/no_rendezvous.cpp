#include "sheaf/base/error.hpp"
#include "sheaf/tensor/start/rendezvous.hpp"

namespace sheaf::tensor {

std::unique_ptr<KeyStore> open_store(const MeetingPlace& place, Deadline) {
  throw UsageError(concat(
      "no rendezvous at ", text_of(place),
      ": this libtorch was built without c10d (USE_DISTRIBUTED); start the "
      "program with mpirun, or build Sheaf with another libtorch"));
}

}  // namespace sheaf::tensor

#pragma once
// The first meeting of the ranks: each says who it is and where it listens.

#include <string>
#include <vector>

#include "sheaf/tensor/start/store.hpp"

namespace sheaf::tensor {

// Gives `mine` to all ranks and returns everybody's, in the order of ranks.
// Errors name the ranks that have not come by the deadline, two processes
// that claim one rank, world sizes that differ, and a file that an earlier
// run has left; the others are told, and fail with the same words.
std::vector<std::string> meet(KeyStore& store, const MeetingPlace& place,
                              Deadline deadline, const std::string& mine);

}  // namespace sheaf::tensor

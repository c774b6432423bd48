#pragma once
// Rendezvous: the ranks exchange their identities and listening addresses.

#include <string>
#include <vector>

#include "sheaf/tensor/start/store.hpp"

namespace sheaf::tensor {

// Sends `mine` to all ranks and returns the strings of all ranks, in rank
// order. Errors name the ranks missing at the deadline, two processes that
// claim the same rank, different world sizes, or a file left by an earlier run.
// Such an error is passed on to the other ranks, which fail with the same text.
std::vector<std::string> meet(KeyStore& store, const MeetingPlace& place,
                              Deadline deadline, const std::string& mine);

}  // namespace sheaf::tensor

#pragma once
// Runs a function on one or all ranks and shares its result or failure with
// all.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/group.hpp"

namespace sheaf::train {

// Calls `body` on rank 0 and returns its result on all ranks. If it throws,
// rank 0 rethrows and the other ranks throw FailedOnRoot. Collective.
std::string from_root(const comm::Group& group,
                      const std::function<std::string()>& body);

// Calls `body` on every rank and returns all results, by rank, on all ranks.
// `body` must return `numbers` values. Ranks where it throws rethrow, the
// others throw FailedOnRoot. Collective.
std::vector<std::vector<std::int64_t>> from_all(
    const comm::Group& group, std::size_t numbers,
    const std::function<std::vector<std::int64_t>()>& body);

// Returns the texts of all ranks, by rank. Collective.
std::vector<std::string> texts_of_all(const comm::Group& group,
                                      const std::string& mine);

}  // namespace sheaf::train

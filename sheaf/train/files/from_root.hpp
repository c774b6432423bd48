#pragma once
// What one rank does for all.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/group.hpp"

namespace sheaf::train {

// Thrown where another rank, mostly rank 0, has failed and has said why.
class FailedOnRoot : public Error {
 public:
  explicit FailedOnRoot(int code, int rank = 0)
      : Error(concat("rank ", rank, " has failed, and says why")),
        code_(code) {}
  int code() const { return code_; }  // that rank's exit code

 private:
  int code_;
};

// The text that `body` gives on rank 0, on all ranks. Where it throws, rank 0
// throws the same, and the others FailedOnRoot.
std::string from_root(const comm::Group& group,
                      const std::function<std::string()>& body);

// The numbers that `body` gives on each rank, by rank, on all ranks; all give
// as many. Ranks where it throws throw the same, and the others FailedOnRoot.
std::vector<std::vector<std::int64_t>> from_all(
    const comm::Group& group, std::size_t numbers,
    const std::function<std::vector<std::int64_t>()>& body);

// The text that each rank gives, by rank, on all ranks.
std::vector<std::string> texts_of_all(const comm::Group& group,
                                      const std::string& mine);

}  // namespace sheaf::train

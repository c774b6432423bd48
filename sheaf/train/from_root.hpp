#pragma once
// What one rank does for all.

#include <functional>
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group.hpp"

namespace sheaf::train {

// Thrown where rank 0 has failed and has said why.
class FailedOnRoot : public Error {
 public:
  explicit FailedOnRoot(int code)
      : Error("rank 0 has failed, and says why"), code_(code) {}
  int code() const { return code_; }  // rank 0's exit code

 private:
  int code_;
};

// The text that `body` gives on rank 0, on all ranks. Where it throws, rank 0
// throws the same, and the others FailedOnRoot.
std::string from_root(const comm::Group& group,
                      const std::function<std::string()>& body);

}  // namespace sheaf::train

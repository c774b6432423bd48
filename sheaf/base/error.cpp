#include "sheaf/base/error.hpp"

namespace sheaf {

FailedOnRoot::FailedOnRoot(int code, int rank)
    : Error(concat("rank ", rank, " failed; see its error message")),
      code_(code) {}

int exit_code(const std::exception& error) noexcept {
  if (dynamic_cast<const UsageError*>(&error)) return 2;
  if (dynamic_cast<const TimeoutError*>(&error)) return 4;
  if (dynamic_cast<const CommError*>(&error)) return 3;
  if (dynamic_cast<const IoError*>(&error)) return 5;
  if (dynamic_cast<const CheckError*>(&error)) return 6;
  if (dynamic_cast<const InternalError*>(&error)) return 70;
  if (const auto* failed = dynamic_cast<const FailedOnRoot*>(&error))
    return failed->code();
  return 1;
}

}  // namespace sheaf

#pragma once
// libtorch's errors as short messages.

#include <exception>
#include <string>

namespace sheaf::tensor {

// The error message in one line, without libtorch's call stack and source
// location.
std::string one_line(const std::exception& error);

}  // namespace sheaf::tensor

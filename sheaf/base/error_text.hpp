#pragma once
// Errors as messages of one line.

#include <exception>
#include <string>

namespace sheaf {

// The error message in one line, without libtorch's call stack and source
// location.
std::string one_line(const std::exception& error);

}  // namespace sheaf

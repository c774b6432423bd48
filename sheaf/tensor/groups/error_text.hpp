#pragma once
// Errors of libtorch, for people.

#include <exception>
#include <string>

namespace sheaf::tensor {

// What the error says, as one line: without libtorch's call stack and without
// the place in its sources.
std::string one_line(const std::exception& error);

}  // namespace sheaf::tensor

#pragma once
// The program that has the commands that need libtorch.

#include <string>
#include <vector>

namespace sheaf::cli {

// sheaf-torch, in the folder of this program. UsageError where it is not
// there: built without libtorch.
std::string torch_program();

// Becomes that program; does not come back. IoError when it cannot.
[[noreturn]] void become_torch_program(const std::vector<std::string>& words);

}  // namespace sheaf::cli

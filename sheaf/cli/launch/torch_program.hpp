#pragma once
// Finds and runs sheaf-torch, the program with the commands that need libtorch.

#include <string>
#include <vector>

namespace sheaf::cli {

// The path of sheaf-torch, in the folder of this program. Throws UsageError if
// it does not exist, because Sheaf was built without libtorch.
std::string torch_program();

// Replaces this process with sheaf-torch. Throws IoError if that fails.
[[noreturn]] void become_torch_program(const std::vector<std::string>& words);

}  // namespace sheaf::cli

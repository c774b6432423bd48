#pragma once
// Finds the programs that sheaf starts. sheaf-torch is the program with the
// commands that need libtorch.

#include <string>
#include <vector>

namespace sheaf::cli {

// The file that a shell would run for `program`; empty if there is none.
std::string find_executable(const std::string& program);

// Throws UsageError, with the reason and a hint, if find_executable does not
// find `program`.
void check_executable(const std::string& program);

std::string this_executable();  // the file of the running program

// The path of sheaf-torch, in the folder of this program. Throws UsageError if
// it does not exist, because Sheaf was built without libtorch.
std::string torch_program();

// Replaces this process with sheaf-torch. Throws IoError if that fails.
[[noreturn]] void become_torch_program(const std::vector<std::string>& words);

}  // namespace sheaf::cli

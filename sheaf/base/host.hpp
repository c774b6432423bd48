#pragma once
// Identity of the machine that this process runs on.

#include <string>

namespace sheaf {

std::string host_name();  // from gethostname; "localhost" if that fails

// An identifier that differs between machines, even machines with the same
// name, and changes at each boot. Empty if the kernel does not provide one.
std::string boot_id();

}  // namespace sheaf

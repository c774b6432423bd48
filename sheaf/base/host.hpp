#pragma once
// The names of the machine that this process runs on.

#include <string>

namespace sheaf {

std::string host_name();  // as gethostname says it

// Another after each boot, and on each machine, whatever their names are. ""
// where the kernel does not tell.
std::string boot_id();

}  // namespace sheaf

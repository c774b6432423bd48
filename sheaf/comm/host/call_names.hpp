#pragma once
// Registers names of calls for error messages about calls of other ranks: a
// fingerprint holds only the hash of a name.

#include <string>

namespace sheaf::comm {

// From now on describe() shows this name for calls with its hash, including
// calls of other ranks. Any thread may call it.
void remember_name(std::string name);

}  // namespace sheaf::comm

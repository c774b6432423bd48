#pragma once
// Names of calls, for messages about calls of other ranks: a fingerprint holds
// the hash of a name only.

#include <string>

namespace sheaf::comm {

// From now on describe() shows this name where a call has it, also a call of
// another rank. For any thread.
void remember_name(std::string name);

}  // namespace sheaf::comm

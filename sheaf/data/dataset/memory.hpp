#pragma once
// Settings that ask for more memory than there is.

#include <functional>
#include <string>

namespace sheaf::data {

// Runs body(), which allocates about `bytes`. UsageError with text() if that is
// more than the host's memory, or if an allocation in body() fails.
void with_memory(double bytes, const std::function<std::string()>& text,
                 const std::function<void()>& body);

}  // namespace sheaf::data

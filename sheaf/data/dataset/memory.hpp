#pragma once
// Reports settings that need more memory than the host has.

#include <functional>
#include <string>

namespace sheaf::data {

// Runs body(), which allocates about `bytes`. Throws UsageError with text() if
// that exceeds the host's memory or an allocation in body() fails.
void with_memory(double bytes, const std::function<std::string()>& text,
                 const std::function<void()>& body);

}  // namespace sheaf::data

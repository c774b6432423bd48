#pragma once
// Settings that ask for more memory than there is.

#include <functional>
#include <string>

namespace sheaf::data {

// Runs body(), which needs so many bytes. Where this host has not so many at
// all, and where body() finds none, UsageError says what text() returns.
void with_memory(double bytes, const std::function<std::string()>& text,
                 const std::function<void()>& body);

}  // namespace sheaf::data

#pragma once
// The files of the folder page/, built in.

#include <string_view>

namespace sheaf::report {

struct PageFiles {
  std::string_view frame;   // HTML, with the places of the others marked
  std::string_view style;   // CSS
  std::string_view script;  // makes charts out of the data
};
PageFiles page_files() noexcept;

}  // namespace sheaf::report

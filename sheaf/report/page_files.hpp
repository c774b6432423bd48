#pragma once
// The files of the folder page/, built in.

#include <string>
#include <string_view>

namespace sheaf::report {

std::string_view page_frame() noexcept;  // HTML; @X@ marks the others' places
std::string_view page_style() noexcept;  // CSS
std::string page_script();               // makes charts out of the data

}  // namespace sheaf::report

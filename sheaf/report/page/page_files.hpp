#pragma once
// The files of the folder page/, built in.

#include <string>
#include <string_view>

namespace sheaf::report {

std::string_view page_frame() noexcept;  // HTML; @X@ marks the others' places
std::string_view page_style() noexcept;  // CSS
std::string page_script();               // makes charts out of the data

// Of the page about a plan, in the same frame.
std::string plan_page_style();
std::string plan_page_script();

}  // namespace sheaf::report

#pragma once
// The embedded files of the folder page/.

#include <string>
#include <string_view>

namespace sheaf::report {

std::string_view page_frame() noexcept;  // HTML with @X@ placeholders
std::string_view page_style() noexcept;  // CSS
std::string page_script();               // draws the charts from the data

// The same for the report of a plan, which uses the same frame.
std::string plan_page_style();
std::string plan_page_script();

}  // namespace sheaf::report

#include "sheaf/report/page_files.hpp"

#include "sheaf/report/built_in.hpp"

SHEAF_BUILT_IN(sheaf_page_frame, SHEAF_PAGE_FOLDER "/page.html");
SHEAF_BUILT_IN(sheaf_page_style, SHEAF_PAGE_FOLDER "/page.css");
SHEAF_BUILT_IN(sheaf_page_script, SHEAF_PAGE_FOLDER "/page.js");

namespace sheaf::report {

PageFiles page_files() noexcept {
  return {.frame = SHEAF_BUILT_IN_TEXT(sheaf_page_frame),
          .style = SHEAF_BUILT_IN_TEXT(sheaf_page_style),
          .script = SHEAF_BUILT_IN_TEXT(sheaf_page_script)};
}

}  // namespace sheaf::report

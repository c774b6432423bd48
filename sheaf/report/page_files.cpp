#include "sheaf/report/page_files.hpp"

#include "sheaf/report/built_in.hpp"

#define PAGE_FILE(name, file) \
  SHEAF_BUILT_IN(sheaf_page_##name, SHEAF_PAGE_FOLDER "/" file)

PAGE_FILE(frame, "page.html");
PAGE_FILE(style, "page.css");
PAGE_FILE(common, "common.js");
PAGE_FILE(cards, "cards.js");
PAGE_FILE(options, "options.js");
PAGE_FILE(learning, "learning.js");
PAGE_FILE(times, "times.js");
PAGE_FILE(layers, "layers.js");
PAGE_FILE(step, "step.js");
PAGE_FILE(settings, "settings.js");
PAGE_FILE(main, "main.js");

namespace sheaf::report {

std::string_view page_frame() noexcept {
  return SHEAF_BUILT_IN_TEXT(sheaf_page_frame);
}

std::string_view page_style() noexcept {
  return SHEAF_BUILT_IN_TEXT(sheaf_page_style);
}

std::string page_script() {
  std::string script;
  // What others use comes first, what runs comes last.
  for (const std::string_view part : {SHEAF_BUILT_IN_TEXT(sheaf_page_common),
                                      SHEAF_BUILT_IN_TEXT(sheaf_page_cards),
                                      SHEAF_BUILT_IN_TEXT(sheaf_page_options),
                                      SHEAF_BUILT_IN_TEXT(sheaf_page_learning),
                                      SHEAF_BUILT_IN_TEXT(sheaf_page_times),
                                      SHEAF_BUILT_IN_TEXT(sheaf_page_layers),
                                      SHEAF_BUILT_IN_TEXT(sheaf_page_step),
                                      SHEAF_BUILT_IN_TEXT(sheaf_page_settings),
                                      SHEAF_BUILT_IN_TEXT(sheaf_page_main)})
    script.append(part);
  return script;
}

}  // namespace sheaf::report

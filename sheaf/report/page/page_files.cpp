#include "sheaf/report/page/page_files.hpp"

#include <initializer_list>

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
PAGE_FILE(theme, "theme.js");
PAGE_FILE(main, "main.js");
PAGE_FILE(plan_style, "plan.css");
PAGE_FILE(plan_common, "plan_common.js");
PAGE_FILE(plan_steps, "plan_steps.js");
PAGE_FILE(plan_layers, "plan_layers.js");
PAGE_FILE(plan_timeline, "plan_timeline.js");
PAGE_FILE(plan_graph, "plan_graph.js");
PAGE_FILE(plan_main, "plan_main.js");

namespace sheaf::report {

std::string_view page_frame() noexcept {
  return SHEAF_BUILT_IN_TEXT(sheaf_page_frame);
}

std::string_view page_style() noexcept {
  return SHEAF_BUILT_IN_TEXT(sheaf_page_style);
}

namespace {

std::string joined(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all.append(part);
  return all;
}

}  // namespace

// Files are in the order of their dependencies; the code that runs is last.
std::string page_script() {
  return joined({SHEAF_BUILT_IN_TEXT(sheaf_page_common),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_cards),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_options),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_learning),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_times),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_layers),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_step),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_settings),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_theme),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_main)});
}

std::string plan_page_style() {
  return joined({page_style(), SHEAF_BUILT_IN_TEXT(sheaf_page_plan_style)});
}

std::string plan_page_script() {
  return joined({SHEAF_BUILT_IN_TEXT(sheaf_page_common),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_cards),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_options),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_theme),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_plan_common),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_plan_steps),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_plan_layers),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_plan_timeline),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_plan_graph),
                 SHEAF_BUILT_IN_TEXT(sheaf_page_plan_main)});
}

}  // namespace sheaf::report

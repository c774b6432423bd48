#pragma once
// The files that are embedded in the program: those of this folder, and Apache
// ECharts, which draws the charts. The assembler's .incbin embeds them, because
// a megabyte as a C++ array would take long to compile.

#include <string>
#include <string_view>

// Embeds `file` under the symbol `name`. Must be used in the global namespace.
#define SHEAF_BUILT_IN(name, file)                     \
  asm(".section .rodata\n"                             \
      ".global " #name "_begin, " #name "_end\n" #name \
      "_begin: .incbin \"" file "\"\n" #name           \
      "_end: .byte 0\n"                                \
      ".previous\n");                                  \
  extern "C" const char name##_begin[];                \
  extern "C" const char name##_end[]

#define SHEAF_BUILT_IN_TEXT(name)  \
  std::string_view(::name##_begin, \
                   static_cast<std::size_t>(::name##_end - ::name##_begin))

namespace sheaf::report {

// ECharts as one script; "" if Sheaf was built without it.
std::string_view echarts_script() noexcept;

std::string_view page_frame() noexcept;  // HTML with @X@ placeholders
std::string_view page_style() noexcept;  // CSS
std::string page_script();               // draws the charts from the data

// The same for the report of a plan, which uses the same frame.
std::string plan_page_style();
std::string plan_page_script();

}  // namespace sheaf::report

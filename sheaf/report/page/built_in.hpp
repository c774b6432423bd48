#pragma once
// Embeds files in the program with the assembler's .incbin, because a megabyte
// as a C++ array would take long to compile.

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

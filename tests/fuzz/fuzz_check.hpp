#pragma once
// For targets that compare results: a result that must not be ends the process,
// which libFuzzer and fuzz_replay report with the input.

#include <cstdio>
#include <cstdlib>

#define SHEAF_FUZZ_CHECK(condition)                                           \
  do {                                                                        \
    if (!(condition)) {                                                       \
      std::fprintf(stderr, "%s:%d: '%s' does not hold\n", __FILE__, __LINE__, \
                   #condition);                                               \
      std::abort();                                                           \
    }                                                                         \
  } while (false)

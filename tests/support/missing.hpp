#pragma once
// Tests that need something which is not installed.

#include <gtest/gtest.h>

#include <cstdlib>

// Skips the test for want of a package. Where SHEAF_CI is set, everything that
// scripts/install-deps installs must be there, and the test fails instead: a
// suite that vanishes is not a suite that passes.
#define SHEAF_SKIP_MISSING(what)                       \
  do {                                                 \
    if (std::getenv("SHEAF_CI"))                       \
      GTEST_FAIL() << what << ", and SHEAF_CI is set"; \
    GTEST_SKIP() << what;                              \
  } while (false)

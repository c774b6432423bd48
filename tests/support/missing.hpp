#pragma once
// Tests that need software which may not be installed.

#include <gtest/gtest.h>

#include <cstdlib>

// Skips the test because a package is missing. If SHEAF_CI is set, everything
// that scripts/install-deps installs must be present, and the test fails
// instead: a skipped suite must not look like a passing one.
#define SHEAF_SKIP_MISSING(what)                       \
  do {                                                 \
    if (std::getenv("SHEAF_CI"))                       \
      GTEST_FAIL() << what << ", and SHEAF_CI is set"; \
    GTEST_SKIP() << what;                              \
  } while (false)

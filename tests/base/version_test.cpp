#include "sheaf/version.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

TEST(Version, TextAndNumbersAgree) {
  EXPECT_EQ(concat(SHEAF_VERSION_MAJOR, ".", SHEAF_VERSION_MINOR, ".",
                   SHEAF_VERSION_PATCH),
            SHEAF_VERSION);
}

}  // namespace
}  // namespace sheaf

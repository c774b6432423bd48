#include <gtest/gtest.h>

#include <stdexcept>

#include "sheaf/base/text.hpp"

namespace sheaf {
namespace {

std::string line_of(const std::string& text) {
  return one_line(std::runtime_error(text));
}

TEST(ErrorText, KeepsTheMessageWithoutTheCallStack) {
  EXPECT_EQ(line_of("plain"), "plain");
  EXPECT_EQ(line_of("it\n  does not\n\nfit\n"), "it does not fit");
  EXPECT_EQ(line_of("it fails\nException raised from f at a.cpp:7 (most recent "
                    "call first):\nframe #0: f + 0x1\nframe #1: g\n"),
            "it fails");
  EXPECT_EQ(line_of("it fails\nframe #0: f + 0x1\n"), "it fails");
  EXPECT_EQ(line_of("[enforce fail at a.cpp:66] . no memory"), "no memory");
}

}  // namespace
}  // namespace sheaf

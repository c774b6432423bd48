#include "sheaf/base/error.hpp"

#include <gtest/gtest.h>

#include "tests/support/expect_error.hpp"

namespace sheaf {
namespace {

TEST(Error, EachKindHasItsExitCode) {
  EXPECT_EQ(exit_code(UsageError("x")), 2);
  EXPECT_EQ(exit_code(MismatchError("x")), 2);
  EXPECT_EQ(exit_code(CommError("x")), 3);
  EXPECT_EQ(exit_code(TimeoutError("x")), 4);
  EXPECT_EQ(exit_code(IoError("x")), 5);
  EXPECT_EQ(exit_code(std::filesystem::filesystem_error("x", {})), 5);
  EXPECT_EQ(exit_code(CheckError("x")), 6);
  EXPECT_EQ(exit_code(InternalError("x")), 70);
  EXPECT_EQ(exit_code(FailedOnRoot(5)), 5);
  EXPECT_EQ(exit_code(Error("x")), 1);
  EXPECT_EQ(exit_code(std::runtime_error("x")), 1);
}

TEST(Error, CheckJoinsItsArguments) {
  EXPECT_NO_THROW(SHEAF_CHECK(true, "never"));
  const auto fail = [] {
    SHEAF_CHECK(1 > 2, "rank ", 3, ": ", 0.5, " and ", 'c');
  };
  EXPECT_EQ(error_of<UsageError>(fail), "rank 3: 0.5 and c");
}

TEST(Error, AssertNamesConditionAndPlace) {
  EXPECT_NO_THROW(SHEAF_ASSERT(true, "never"));
  expect_throws<InternalError>([] { SHEAF_ASSERT(1 == 2, "chunk ", 7); },
                               {"error_test.cpp:", "'1 == 2'", "chunk 7"});
}

TEST(Error, ATimeoutIsACommunicationError) {
  EXPECT_THROW(throw TimeoutError("late"), CommError);
  EXPECT_THROW(throw MismatchError("differ"), UsageError);
}

}  // namespace
}  // namespace sheaf

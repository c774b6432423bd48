#include "sheaf/base/failure_note.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include "sheaf/base/error.hpp"

namespace sheaf {
namespace {

class FailureNoteTest : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("SHEAF_FAILURE_NOTE"); }
};

TEST_F(FailureNoteTest, TheLastOneCounts) {
  const FailureNotes notes;
  notes.export_place();
  EXPECT_FALSE(notes.last());
  leave_failure_note(FailureCause::kOther, "a peer is gone");
  leave_failure_note(FailureCause::kOwn, "no space\nleft");
  const auto last = notes.last();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->cause, FailureCause::kOwn);
  EXPECT_EQ(last->text, "no space left");
}

TEST_F(FailureNoteTest, LongTextsAreCut) {
  const FailureNotes notes;
  notes.export_place();
  leave_failure_note(FailureCause::kOwn, std::string(5000, 'x'));
  ASSERT_TRUE(notes.last());
  EXPECT_EQ(notes.last()->text.substr(0, 900), std::string(900, 'x'));
  EXPECT_LT(notes.last()->text.size(), 1024u);
}

// The variable may outlive the storage, and its descriptor number may belong to
// another file.
TEST_F(FailureNoteTest, NothingElseIsWrittenTo) {
  leave_failure_note(FailureCause::kOwn, "nobody hears");
  const FailureNotes notes;
  notes.export_place();
  std::string place = std::getenv("SHEAF_FAILURE_NOTE");
  place.back() = place.back() == '0' ? '1' : '0';
  ::setenv("SHEAF_FAILURE_NOTE", place.c_str(), 1);
  leave_failure_note(FailureCause::kOwn, "to somebody else");
  EXPECT_FALSE(notes.last());
  for (const char* wrong : {"", ":", "/dev/null:0123456789abcdef", "/x:y"}) {
    ::setenv("SHEAF_FAILURE_NOTE", wrong, 1);
    leave_failure_note(FailureCause::kOwn, "nobody hears");
  }
}

TEST_F(FailureNoteTest, OnlyErrorsOfCommunicationAreOthersFault) {
  EXPECT_EQ(cause_of(CommError("x")), FailureCause::kOther);
  EXPECT_EQ(cause_of(TimeoutError("x")), FailureCause::kOther);
  EXPECT_EQ(cause_of(IoError("x")), FailureCause::kOwn);
  EXPECT_EQ(cause_of(MismatchError("x")), FailureCause::kOwn);
  EXPECT_EQ(cause_of(std::runtime_error("x")), FailureCause::kOwn);
}

}  // namespace
}  // namespace sheaf

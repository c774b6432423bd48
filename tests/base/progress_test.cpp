#include "sheaf/base/progress.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "sheaf/base/text.hpp"

namespace sheaf {
namespace {

using namespace std::chrono_literals;

class RankProgress : public ::testing::Test {
 protected:
  ProgressOptions options(bool is_terminal = true, std::size_t columns = 80) {
    return {.is_terminal = is_terminal,
            .columns = columns,
            .interval = 100ms,
            .now = [this] { return now_; }};
  }
  // The text written since the last call.
  std::string written() {
    const std::string text = out_.str();
    out_.str("");
    return text;
  }

  std::ostringstream out_;
  std::chrono::steady_clock::time_point now_;
};

TEST_F(RankProgress, SaysFractionTextAndTimeLeft) {
  Progress progress(out_, options());
  now_ += 10s;
  progress.update(0.25, "64 KiB");
  EXPECT_EQ(written(),
            "\r\x1b[K[#####...............]  25 %  64 KiB  30.0 s left");
}

TEST_F(RankProgress, AtBothEndsThereIsNoTimeLeft) {
  Progress progress(out_, options());
  progress.update(0, "start");
  EXPECT_EQ(written(), "\r\x1b[K[....................]   0 %  start");
  now_ += 1s;
  progress.update(1, "end");
  EXPECT_EQ(written(), "\r\x1b[K[####################] 100 %  end");
}

// Standard error is a terminal of this width while the object lives.
class NarrowTerminal {
 public:
  explicit NarrowTerminal(unsigned short columns)
      : main_(::posix_openpt(O_RDWR | O_NOCTTY)) {
    const char* const name =
        main_ >= 0 && ::grantpt(main_) == 0 && ::unlockpt(main_) == 0
            ? ::ptsname(main_)
            : nullptr;
    const winsize size{
        .ws_row = 24, .ws_col = columns, .ws_xpixel = 0, .ws_ypixel = 0};
    if (name) terminal_ = ::open(name, O_RDWR | O_NOCTTY);
    is_open_ = terminal_ >= 0 && ::ioctl(terminal_, TIOCSWINSZ, &size) == 0;
    if (is_open_) ::dup2(terminal_, STDERR_FILENO);
  }
  ~NarrowTerminal() {
    ::dup2(before_, STDERR_FILENO);
    for (const int fd : {main_, terminal_, before_}) ::close(fd);
  }
  NarrowTerminal(const NarrowTerminal&) = delete;
  NarrowTerminal& operator=(const NarrowTerminal&) = delete;
  bool is_open() const { return is_open_; }

 private:
  int before_ = ::dup(STDERR_FILENO);
  int main_;
  int terminal_ = -1;
  bool is_open_ = false;
};

TEST(ProgressOnStderr, HasTheWidthOfTheTerminal) {
  for (const unsigned short columns : {37, 1, 0}) {
    const NarrowTerminal terminal(columns);
    if (!terminal.is_open()) GTEST_SKIP() << "no pseudo-terminals here";
    const ProgressOptions options = progress_on_stderr();
    EXPECT_TRUE(options.is_terminal);
    EXPECT_EQ(options.columns, columns > 0 ? columns : 80u);  // 0: unknown
  }
}

TEST_F(RankProgress, InAPipeThereIsNothing) {
  {
    Progress progress(out_, options(/*is_terminal=*/false));
    progress.update(0.5, "x");
    progress.clear();
  }
  EXPECT_EQ(written(), "");
}

TEST_F(RankProgress, IsNotDrawnTooOften) {
  Progress progress(out_, options());
  progress.update(0.1, "a");
  EXPECT_NE(written(), "");
  now_ += 99ms;
  progress.update(0.2, "b");
  EXPECT_EQ(written(), "");
  now_ += 1ms;
  progress.update(0.3, "c");
  EXPECT_NE(written(), "");
}

TEST_F(RankProgress, ClearsItselfOnce) {
  {
    Progress progress(out_, options());
    progress.update(0.1, "a");
    written();
    progress.clear();
    EXPECT_EQ(written(), "\r\x1b[K");
    progress.clear();
    EXPECT_EQ(written(), "");
    progress.update(0.1, "a");
    EXPECT_NE(written(), "") << "it is drawn at once after clear()";
  }
  EXPECT_EQ(written(), "\r\x1b[K");
}

TEST_F(RankProgress, FitsTheTerminal) {
  Progress progress(out_, options(/*is_terminal=*/true, /*columns=*/34));
  progress.update(0.5, "µµµµµµµµµµµµ");
  EXPECT_EQ(display_width(written()), 31 + display_width("\r\x1b[K"));
}

TEST_F(RankProgress, GivesUpTheBarFirstThenWholeWords) {
  const auto line_of = [this](std::size_t columns) {
    Progress progress(out_, options(/*is_terminal=*/true, columns));
    progress.update(0.5, "loss 0.25  640 rows/s");
    const std::string line = written();
    return line.substr(line.rfind('K') + 1);
  };
  EXPECT_EQ(line_of(48), "[#######.......]  50 %  loss 0.25  640 rows/s");
  EXPECT_EQ(line_of(39), "[##...]  50 %  loss 0.25  640 rows/s");
  EXPECT_EQ(line_of(38), "[########........]  50 %  loss 0.25");
  EXPECT_EQ(line_of(10), "[##...]");
  EXPECT_EQ(line_of(6), "[##");
}

TEST_F(RankProgress, WhatWasDoneBeforeTookNoTime) {
  Progress progress(out_, options());
  now_ += 3s;
  progress.start_at(0.5);
  now_ += 10s;
  progress.update(0.75, "x");
  EXPECT_NE(written().find("10.0 s left"), std::string::npos);
}

TEST_F(RankProgress, FractionsOutsideAreTakenAsTheEnds) {
  Progress progress(out_, options());
  progress.update(7, "x");
  EXPECT_NE(written().find("100 %"), std::string::npos);
}

}  // namespace
}  // namespace sheaf

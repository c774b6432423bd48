#include "sheaf/comm/network/ack_watch.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "sheaf/base/error.hpp"
#include "tests/comm/network/loopback.hpp"
#include "tests/support/environment.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLimit(100);

// A connection whose other side never reads. Lost hosts are tested on the
// testbed: see tests/comm/group/fault_driver.cpp.
class Watched : public testing::Test {
 protected:
  Watched() {
    test::Listener listener;
    mine_ = test::connect_to_loopback(listener.port);
    EXPECT_TRUE(is_ready(listener.socket.fd(), POLLIN, test::soon()));
    theirs_ = Socket(::accept(listener.socket.fd(), nullptr, nullptr));
  }
  bool is_ever_cut_off() {
    AckWatch watch(kLimit);
    auto now = steady_clock::now();
    bool is_cut_off = false;
    for (int i = 0; i < 100; ++i, now += kLimit / 5)
      is_cut_off = watch.is_cut_off(mine_.fd(), now) || is_cut_off;
    return is_cut_off;
  }

  Socket mine_;
  Socket theirs_;
};

TEST_F(Watched, AnIdleConnectionIsNotCutOff) {
  EXPECT_FALSE(is_ever_cut_off());
}

// The kernel acknowledges what a stopped or busy process does not read.
TEST_F(Watched, APeerThatDoesNotReadIsNotCutOff) {
  const std::vector<char> data(1 << 16);
  while (::send(mine_.fd(), data.data(), data.size(), MSG_DONTWAIT) > 0) {
  }
  EXPECT_FALSE(is_ever_cut_off());
}

// Looks at a connection at intervals; each look follows a message that is
// acknowledged a moment later, unless the host is lost.
class Looks {
 public:
  bool sees_cut_off(milliseconds interval, bool is_lost) {
    now_ += interval;
    if (!is_lost) last_acknowledgment_ = last_sent_ + milliseconds(1);
    last_sent_ = now_;
    return watch_.is_cut_off({true, std::chrono::duration_cast<milliseconds>(
                                        now_ - last_acknowledgment_)},
                             now_);
  }

 private:
  AckWatch watch_{milliseconds(1500)};
  steady_clock::time_point now_ = steady_clock::now();
  steady_clock::time_point last_sent_ = now_;
  steady_clock::time_point last_acknowledgment_ = now_;
};

// A process on a busy host runs seldom, and looks right after it has sent.
TEST(AckWatch, DataSentAMomentAgoIsNotCutOff) {
  for (const int interval : {1, 50, 200, 370, 380, 500, 740, 750, 760, 5000}) {
    Looks looks;
    for (int i = 0; i < 100; ++i)
      EXPECT_FALSE(looks.sees_cut_off(milliseconds(interval), false))
          << interval << " ms";
  }
}

TEST(AckWatch, ALostHostIsSeenAfterTheLimit) {
  for (const int interval : {10, 50, 200, 500}) {
    Looks looks;
    for (int i = 0; i < 10; ++i)
      EXPECT_FALSE(looks.sees_cut_off(milliseconds(interval), false));
    int waited = 0;
    while (waited < 10000 && !looks.sees_cut_off(milliseconds(interval), true))
      waited += interval;
    EXPECT_GE(waited, 1000) << interval;
    EXPECT_LE(waited, 1700) << interval;
  }
}

TEST(HostTimeout, IsADuration) {
  EXPECT_EQ(host_timeout(), milliseconds(1500));
  {
    const test::ScopedVariable set("SHEAF_HOST_TIMEOUT", "2.5s");
    EXPECT_EQ(host_timeout(), milliseconds(2500));
  }
  for (const char* text : {"", "5", "soon", "1ms", "-3s"}) {
    const test::ScopedVariable set("SHEAF_HOST_TIMEOUT", text);
    EXPECT_THROW(host_timeout(), UsageError) << text;
  }
}

}  // namespace
}  // namespace sheaf::comm

#include "sheaf/comm/host/rank_end.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace sheaf::comm {
namespace {

class RankEndTest : public testing::Test {
 protected:
  const std::unique_ptr<RankEnd> end_ = std::make_unique<RankEnd>();
};

TEST_F(RankEndTest, ARankThatHasMadeNoCallsHasNotEnded) {
  EXPECT_FALSE(end_->has_ended());
  EXPECT_EQ(end_->last(0).sequence, 0u);
  EXPECT_FALSE(end_->has_made({.group = 0, .serial = 0, .sequence = 1}));
  end_->for_each_group([](const CallNumber&) { FAIL() << "a call"; });
}

TEST_F(RankEndTest, EachGroupHasItsLastCall) {
  end_->note_call({.group = 3, .serial = 9, .sequence = 4});
  end_->note_call({.group = kPlainCalls, .serial = 0, .sequence = 2});
  end_->note_call({.group = 3, .serial = 9, .sequence = 5});
  std::vector<std::vector<std::uint32_t>> seen;
  end_->for_each_group([&](const CallNumber& call) {
    seen.push_back(
        {static_cast<std::uint32_t>(call.group), call.serial, call.sequence});
  });
  EXPECT_EQ(seen, (std::vector<std::vector<std::uint32_t>>{
                      {3, 9, 5}, {kPlainCalls, 0, 2}}));
}

TEST_F(RankEndTest, CallsUpToTheLastWereMade) {
  end_->note_call({.group = 3, .serial = 9, .sequence = 5});
  EXPECT_TRUE(end_->has_made({.group = 3, .serial = 9, .sequence = 4}));
  EXPECT_TRUE(end_->has_made({.group = 3, .serial = 9, .sequence = 5}));
  EXPECT_FALSE(end_->has_made({.group = 3, .serial = 9, .sequence = 6}));
}

TEST_F(RankEndTest, SequencesAreComparedAcrossTheWrapAround) {
  end_->note_call({.group = 0, .serial = 0, .sequence = 1});
  EXPECT_TRUE(
      end_->has_made({.group = 0, .serial = 0, .sequence = 0xffffffffu}));
}

// The rank has left the group that used the id before.
TEST_F(RankEndTest, ReuseOfAnIdMeansThatAllCallsWereMade) {
  end_->note_call({.group = 3, .serial = 10, .sequence = 0});
  EXPECT_TRUE(end_->has_made({.group = 3, .serial = 9, .sequence = 100}));
}

TEST_F(RankEndTest, QueuedCallsDelayTheEnd) {
  end_->add_queued(2);
  end_->note_end();
  EXPECT_FALSE(end_->has_ended());
  end_->add_queued(-1);
  EXPECT_FALSE(end_->has_ended());
  end_->add_queued(-1);
  EXPECT_TRUE(end_->has_ended());
}

}  // namespace
}  // namespace sheaf::comm

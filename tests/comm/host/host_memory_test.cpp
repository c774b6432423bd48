#include "sheaf/comm/host/host_memory.hpp"

#include <gtest/gtest.h>

namespace sheaf::comm {
namespace {

constexpr std::size_t kHeapBytes = std::size_t{64} << 20;

TEST(ReturnedBlocks, AreTakenOnceEach) {
  ReturnedBlocks blocks;
  EXPECT_EQ(blocks.take(), 0u);
  blocks.put(4096);
  blocks.put(8192);
  EXPECT_EQ(blocks.take() + blocks.take(), 4096u + 8192u);
  EXPECT_EQ(blocks.take(), 0u);
}

TEST(ReturnedBlocks, BeyondTheListAreForgotten) {
  ReturnedBlocks blocks;
  for (std::uint64_t i = 1; i <= 300; ++i) blocks.put(i);
  std::uint64_t taken = 0;
  while (blocks.take()) ++taken;
  EXPECT_EQ(taken, 256u);
}

// Two ranks of one host.
class TwoHeaps : public testing::Test {
 protected:
  TwoHeaps() {
    first_.connect({first_.name(), second_.name()}, 0);
    second_.connect({first_.name(), second_.name()}, 1);
  }

  HostMemory first_{kHeapBytes};
  HostMemory second_{kHeapBytes};
};

TEST_F(TwoHeaps, EachRankReadsWhatTheOtherWrites) {
  EXPECT_EQ(first_.local_size(), 2);
  std::byte* block = first_.heap().allocate(100);
  block[99] = std::byte{42};
  EXPECT_EQ(second_.base(0)[first_.offset(block) + 99], std::byte{42});
  second_.base(0)[first_.offset(block)] = std::byte{7};
  EXPECT_EQ(block[0], std::byte{7});
  EXPECT_EQ(&second_.alarm(), &second_.header(0).alarm);
}

TEST_F(TwoHeaps, OnlyBuffersInsideOfThisRanksHeapAreShared) {
  std::byte* block = first_.heap().allocate(100);
  std::byte plain[100];
  const auto both = first_.shared(block, block + 50, 50);
  EXPECT_EQ(both.input, first_.offset(block));
  EXPECT_EQ(both.output, first_.offset(block) + 50);
  const auto none = first_.shared(plain, nullptr, 100);
  EXPECT_EQ(none.input, SharedBuffers::kNotShared);
  EXPECT_EQ(none.output, SharedBuffers::kNotShared);
  EXPECT_EQ(second_.shared(block, block, 100).input, SharedBuffers::kNotShared);
  // It begins inside and ends outside.
  EXPECT_EQ(first_.shared(block, nullptr, kHeapBytes).input,
            SharedBuffers::kNotShared);
}

TEST_F(TwoHeaps, ARankThatLeavesIsNotDead) {
  using Life = HostMemory::Life;
  EXPECT_EQ(first_.life_of(0), Life::kAlive);
  EXPECT_EQ(first_.life_of(1), Life::kAlive);
  second_.play_dead();
  EXPECT_EQ(first_.life_of(1), Life::kDead);
  second_.begin_leave();  // it dies at its end
  EXPECT_EQ(first_.life_of(1), Life::kDead);
  second_.end_leave();
  EXPECT_EQ(first_.life_of(1), Life::kLeft);
  EXPECT_EQ(second_.life_of(0), Life::kAlive);
}

TEST_F(TwoHeaps, BlocksThatAnotherRankReturnsAreFreed) {
  const std::size_t before = first_.heap().bytes_in_use();
  std::byte* block = first_.heap().allocate(1000);
  EXPECT_GT(first_.heap().bytes_in_use(), before);
  second_.header(0).returned.put(first_.offset(block));
  first_.collect_returned();
  EXPECT_EQ(first_.heap().bytes_in_use(), before);
  first_.collect_returned();  // nothing is left
  EXPECT_EQ(first_.heap().bytes_in_use(), before);
}

TEST_F(TwoHeaps, AllRanksOfTheHostReadTheBoardOfTheFirst) {
  EXPECT_FALSE(second_.remote_end(2).has_ended());  // before it is made
  first_.make_board(4);
  first_.board(3).begin({.operation = Operation::kBarrier, .sequence = 8}, 0);
  first_.remote_end(2).note_end();
  ASSERT_TRUE(second_.board(3).latest());
  EXPECT_EQ(second_.board(3).latest()->call.sequence, 8u);
  EXPECT_FALSE(second_.board(2).latest());
  EXPECT_TRUE(second_.remote_end(2).has_ended());
  EXPECT_FALSE(second_.remote_end(3).has_ended());
}

}  // namespace
}  // namespace sheaf::comm

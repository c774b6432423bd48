#include "sheaf/comm/host/local_group.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/host/heap.hpp"

namespace sheaf::comm {
namespace {

// The members of one host, each with its own view of the region.
class ThreeMembers : public testing::Test {
 protected:
  static constexpr int kMembers = 3;

  ThreeMembers() {
    std::byte* region = heap_.allocate(LocalGroup::region_bytes(kMembers),
                                       /*commit=*/false);
    LocalGroup::initialize(region, kMembers);
    for (int me = 0; me < kMembers; ++me)
      members_.emplace_back(region, kMembers, me);
  }

  LocalGroup& at(int member) {
    return members_[static_cast<std::size_t>(member)];
  }

  Heap heap_{std::size_t{64} << 20, 4096};
  std::vector<LocalGroup> members_;
};

std::vector<std::byte> numbers(std::size_t bytes, int first) {
  std::vector<std::byte> data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(static_cast<std::size_t>(first) + i);
  return data;
}

TEST_F(ThreeMembers, KnowTheirPlaces) {
  for (int me = 0; me < kMembers; ++me) {
    EXPECT_EQ(at(me).size(), kMembers);
    EXPECT_EQ(at(me).me(), me);
  }
}

// Around the size that fits into the slot, and the largest.
TEST_F(ThreeMembers, PassDataOfEverySizeOnArrival) {
  std::uint32_t sequence = 0;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, kInlineBytes,
                                  kInlineBytes + 1, kSmallBytes}) {
    ++sequence;
    for (int me = 0; me < kMembers; ++me) {
      const auto mine = numbers(bytes, me);
      at(me).arrive({.operation = Operation::kBarrier, .sequence = sequence},
                    mine.data(), bytes);
    }
    for (int reader = 0; reader < kMembers; ++reader)
      for (int writer = 0; writer < kMembers; ++writer) {
        ASSERT_TRUE(
            at(reader).slot(writer, sequence).sequence.has_reached(sequence));
        const std::byte* data = at(reader).payload(writer, sequence, bytes);
        EXPECT_EQ(std::vector<std::byte>(data, data + bytes),
                  numbers(bytes, writer))
            << bytes << " bytes of member " << writer;
      }
  }
}

// A member may be one call ahead: the slots of two calls are separate.
TEST_F(ThreeMembers, TheNextCallKeepsTheDataOfThisOne) {
  for (const std::size_t bytes : {kInlineBytes, kSmallBytes})
    for (const std::uint32_t sequence : {1u, 2u})
      at(0).arrive({.operation = Operation::kBarrier, .sequence = sequence},
                   numbers(bytes, static_cast<int>(sequence)).data(), bytes);
  for (const std::size_t bytes : {kInlineBytes, kSmallBytes})
    for (const std::uint32_t sequence : {1u, 2u}) {
      EXPECT_EQ(at(1).slot(0, sequence).call.sequence, sequence);
      const std::byte* data = at(1).payload(0, sequence, bytes);
      EXPECT_EQ(*data, static_cast<std::byte>(sequence)) << bytes;
    }
}

TEST_F(ThreeMembers, MoreThanASmallMessageIsABug) {
  const std::vector<std::byte> much(kSmallBytes + 1);
  EXPECT_THROW(at(0).arrive({.sequence = 1}, much.data(), much.size()),
               InternalError);
}

TEST_F(ThreeMembers, StagingBuffersAreUsedInTurn) {
  EXPECT_EQ(at(0).staging(1, 0), at(2).staging(1, kStageSlots));
  for (int slot = 1; slot < kStageSlots; ++slot) {
    const auto segment = static_cast<std::size_t>(slot);
    EXPECT_EQ(at(0).staging(1, segment) - at(0).staging(1, segment - 1),
              static_cast<std::ptrdiff_t>(kMaxSegmentBytes));
  }
  EXPECT_NE(at(0).staging(0, 0), at(0).staging(1, 0));
}

TEST_F(ThreeMembers, TheLastToLeaveReturnsTheRegion) {
  EXPECT_FALSE(at(1).leave());
  EXPECT_FALSE(at(0).leave());
  EXPECT_TRUE(at(2).leave());
}

TEST(LocalGroup, WithoutARegionHasNothingToReturn) {
  EXPECT_FALSE(LocalGroup().leave());
  EXPECT_EQ(LocalGroup().size(), 0);
}

}  // namespace
}  // namespace sheaf::comm

// Messages between real ranks.

#include <gtest/gtest.h>

#include <numeric>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/comm/process/mailroom.hpp"
#include "tests/support/world.hpp"

namespace sheaf::comm {
namespace {

using Ints = std::vector<int>;

Ints counting(std::size_t count, int from) {
  Ints data(count);
  std::iota(data.begin(), data.end(), from);
  return data;
}

int next_rank() {
  const Group& world = test::world();
  return (world.rank() + 1) % world.size();
}
int previous_rank() {
  const Group& world = test::world();
  return (world.rank() + world.size() - 1) % world.size();
}

TEST(MessageRanks, OfEverySizeArrive) {
  const Group& world = test::world();
  for (const std::size_t count : {0, 1, 2048, 2049, 20000, 1000000}) {
    const Ints sent = counting(count, world.rank());
    Ints data(count);
    Work receive = irecv(world, data, previous_rank());
    send(world, sent, next_rank(), {.timeout = std::chrono::seconds(30)});
    receive.wait();
    EXPECT_EQ(data, counting(count, previous_rank()));
  }
}

TEST(MessageRanks, FromAnySourceInAnyOrderOfTags) {
  const Group& world = test::world();
  constexpr int kMany = 200;
  for (int i = 0; i < kMany; ++i)
    send(world, Ints{world.rank(), i}, next_rank(), {.tag = i});
  for (int i = kMany - 1; i >= 0; --i) {
    Ints data(2);
    EXPECT_EQ(recv(world, data, kAnySource, {.tag = i}), previous_rank());
    EXPECT_EQ(data, (Ints{previous_rank(), i}));
  }
}

// The sender does something else first and waits for its message last.
TEST(MessageRanks, TravelWhileTheSenderIsInACollective) {
  const Group& world = test::world();
  const Ints sent = counting(3000000, world.rank());
  Ints data(sent.size());
  const bool sends = world.rank() == 0;
  const bool receives = world.rank() == world.size() - 1;
  Work work;
  if (sends) work = isend(world, sent, world.size() - 1);
  if (receives) recv(world, data, 0);
  barrier(world, {.timeout = std::chrono::seconds(30)}).wait();
  if (sends) work.wait();
  EXPECT_TRUE(!receives || data == counting(sent.size(), 0));
}

// The receiver does something else first while the sender waits.
TEST(MessageRanks, TravelWhileTheReceiverIsInACollective) {
  const Group& world = test::world();
  const Ints sent = counting(3000000, world.rank());
  Ints data(sent.size());
  Work work = irecv(world, data, 0, {.timeout = std::chrono::seconds(30)});
  if (world.rank() == 0)
    for (int rank = 0; rank < world.size(); ++rank)
      send(world, sent, rank, {.timeout = std::chrono::seconds(30)});
  barrier(world, {.timeout = std::chrono::seconds(30)}).wait();
  work.wait();
  EXPECT_TRUE(data == counting(sent.size(), 0));
}

// The operation keeps its memory although its Work was destroyed.
TEST(MessageRanks, KeepTheirMemoryWhenTheWorkIsDropped) {
  const Group& world = test::world();
  constexpr std::size_t kCount = 4 << 20;
  std::weak_ptr<Ints> watched;
  {
    auto sent = std::make_shared<Ints>(counting(kCount, world.rank()));
    watched = sent;
    Work work = isend(world, *sent, next_rank());
    work.append([sent] {});
  }
  // Would reuse the memory if it had been freed.
  const Ints other(kCount, -1);
  barrier(world).wait();
  Ints data(kCount);
  recv(world, data, previous_rank());
  EXPECT_TRUE(data == counting(kCount, previous_rank()));
  auto& mailroom = world.core().runtime().mailroom();
  while (mailroom.is_busy()) mailroom.progress();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace sheaf::comm

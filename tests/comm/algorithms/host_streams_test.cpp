#include "sheaf/comm/algorithms/host_streams.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "sheaf/comm/group/argument_checks.hpp"
#include "sheaf/comm/group/perform.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::comm {
namespace {

TEST(HostStreams, OverlapIsTheCommonPart) {
  const auto expect = [](Range window, std::size_t begin, std::size_t bytes,
                         std::size_t from, std::size_t count) {
    const Range part = overlap(window, begin, bytes);
    EXPECT_EQ(part.count, count);
    if (count > 0) {
      EXPECT_EQ(part.begin, from);
    }
  };
  expect({10, 10}, 0, 100, 10, 10);  // the window lies inside
  expect({0, 100}, 30, 5, 30, 5);    // the block lies inside
  expect({10, 10}, 15, 10, 15, 5);
  expect({10, 10}, 5, 10, 10, 5);
  expect({10, 10}, 20, 10, 0, 0);  // they only touch
  expect({10, 10}, 0, 10, 0, 0);
  expect({10, 10}, 12, 0, 0, 0);
  expect({10, 0}, 0, 100, 0, 0);
}

std::byte stream_byte(int member, std::size_t i) {
  return static_cast<std::byte>(i * 5 + i / 253 +
                                static_cast<std::size_t>(member) * 31);
}

// Every member reads the streams of all members and compares each byte.
void exchange_streams(const Group& group, const std::vector<std::size_t>& bytes,
                      bool in_arena) {
  const auto me = static_cast<std::size_t>(group.rank());
  auto arena = group.allocate<std::byte>(bytes[me]);
  std::vector<std::byte> plain(bytes[me]);
  std::byte* mine = in_arena ? arena.data() : plain.data();
  for (std::size_t i = 0; i < bytes[me]; ++i)
    mine[i] = stream_byte(group.rank(), i);
  const SharedBuffers shared = group.core().runtime().memory().shared(
      mine, /*output=*/nullptr, bytes[me]);
  std::vector<std::size_t> seen(bytes.size());
  std::size_t wrong = 0;
  perform(group.core(),
          make_fingerprint(Operation::kAllGather, DType::kU8, 0, {}),
          std::chrono::milliseconds(0), &shared, sizeof shared,
          [&](CollectiveCall& call) {
            Streams streams{.mine = mine, .bytes = bytes, .in_place = {}};
            find_in_place(call, streams);
            if (in_arena) {
              EXPECT_EQ(streams.in_place.size(), bytes.size());
            }
            exchange(call, streams,
                     [&](Range window, std::span<const std::byte* const> at) {
                       for (std::size_t m = 0; m < bytes.size(); ++m) {
                         const Range part = overlap(window, 0, bytes[m]);
                         for (std::size_t i = 0; i < part.count; ++i)
                           if (at[m][i] !=
                               stream_byte(static_cast<int>(m), part.begin + i))
                             ++wrong;
                         seen[m] += part.count;
                       }
                     });
          });
  EXPECT_EQ(seen, bytes);
  EXPECT_EQ(wrong, 0u);
}

// Empty streams, one byte, and around the size of a window, 256 KiB.
TEST(HostStreams, EveryMemberReadsAllStreams) {
  constexpr std::size_t kWindow = std::size_t{256} << 10;
  run_threads(3, [](const Group& group) {
    for (const bool in_arena : {false, true})
      for (const auto& bytes : std::vector<std::vector<std::size_t>>{
               {0, 0, 0},
               {1, 0, 0},
               {5, 1000, 7},
               {kWindow, kWindow - 1, kWindow + 1},
               {0, 6 * kWindow + 3, 17}})
        exchange_streams(group, bytes, in_arena);
  });
}

TEST(HostStreams, ASingleMemberReadsItsOwn) {
  run_threads(1, [](const Group& group) {
    exchange_streams(group, {1001}, /*in_arena=*/false);
    exchange_streams(group, {0}, /*in_arena=*/false);
  });
}

TEST(HostStreams, OneStreamOutsideOfTheArenaStagesAll) {
  run_threads(2, [](const Group& group) {
    auto arena = group.allocate<std::byte>(10);
    std::byte plain[10] = {};
    const std::byte* mine = group.rank() == 0 ? arena.data() : plain;
    const SharedBuffers shared =
        group.core().runtime().memory().shared(mine, nullptr, 10);
    perform(group.core(),
            make_fingerprint(Operation::kAllGather, DType::kU8, 0, {}),
            std::chrono::milliseconds(0), &shared, sizeof shared,
            [&](CollectiveCall& call) {
              Streams streams{.mine = mine, .bytes = {10, 10}, .in_place = {}};
              find_in_place(call, streams);
              EXPECT_TRUE(streams.in_place.empty());
              // A stream without bytes may be anywhere.
              streams.bytes = {10, 0};
              find_in_place(call, streams);
              EXPECT_EQ(streams.in_place.size(), 2u);
              exchange(call, streams, [](Range, auto) {});
            });
  });
}

}  // namespace
}  // namespace sheaf::comm

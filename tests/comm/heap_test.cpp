#include "sheaf/comm/heap.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::size_t kReserved = 4096;

std::size_t place(const Heap& heap, const std::byte* block) {
  return static_cast<std::size_t>(block - heap.segment().data());
}

TEST(Heap, LeavesTheHeaderAlone) {
  Heap heap(16 * kMiB, kReserved);
  EXPECT_EQ(place(heap, heap.allocate(1)), kReserved);
}

TEST(Heap, AlignsBlocks) {
  Heap heap(16 * kMiB, kReserved);
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 1000})
    EXPECT_EQ(place(heap, heap.allocate(bytes)) % 64, 0u) << bytes;
  EXPECT_EQ(place(heap, heap.allocate(2 * kMiB)) % (2 * kMiB), 0u);
}

TEST(Heap, MemoryCanBeUsed) {
  Heap heap(16 * kMiB, kReserved);
  std::byte* block = heap.allocate(3 * kMiB);
  std::memset(block, 1, 3 * kMiB);
  std::byte* other = heap.allocate(1000, /*commit=*/false);
  std::memset(other, 2, 1000);
  EXPECT_EQ(block[3 * kMiB - 1], std::byte{1});
}

TEST(Heap, GivesFreedMemoryAgain) {
  Heap heap(16 * kMiB, kReserved);
  std::byte* first = heap.allocate(1000);
  heap.allocate(1000);
  heap.free(first);
  EXPECT_EQ(heap.allocate(1000), first);
}

// Freed in any order, neighbours become one piece again.
TEST(Heap, JoinsFreedNeighbours) {
  const std::vector<std::vector<std::size_t>> orders{
      {0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  for (const auto& order : orders) {
    Heap heap(8 * kMiB, kReserved);
    std::vector<std::byte*> blocks;
    for (int i = 0; i < 3; ++i) blocks.push_back(heap.allocate(kMiB));
    heap.allocate(kMiB);
    for (const std::size_t i : order) heap.free(blocks[i]);
    EXPECT_EQ(heap.allocate(3 * kMiB / 2), blocks[0]);
  }
}

TEST(Heap, SaysWhatToDoWhenItIsFull) {
  Heap heap(4 * kMiB, kReserved);
  heap.allocate(kMiB);
  expect_throws<UsageError>([&] { heap.allocate(16 * kMiB); },
                            {"SHEAF_ARENA_BYTES"});
  heap.allocate(kMiB);  // it still serves
}

TEST(Heap, FreeOfAnythingElseDoesNothing) {
  Heap heap(4 * kMiB, kReserved);
  std::byte* block = heap.allocate(1000);
  heap.free(block + 64);
  heap.free(block);
  heap.free(block);
  EXPECT_EQ(heap.allocate(1000), block);
}

// Blocks never overlap: each keeps the mark of its owner.
TEST(Heap, ServesThreads) {
  Heap heap(64 * kMiB, kReserved);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&heap, t] {
      std::minstd_rand random(static_cast<unsigned>(t) + 1);
      std::vector<std::pair<std::byte*, std::size_t>> blocks;
      for (int i = 0; i < 500; ++i) {
        const std::size_t bytes = 1 + random() % 5000;
        blocks.emplace_back(heap.allocate(bytes, /*commit=*/false), bytes);
        std::memset(blocks.back().first, t, bytes);
        if (random() % 2 == 0) continue;
        const std::size_t i_free = random() % blocks.size();
        const auto [block, size] = blocks[i_free];
        EXPECT_EQ(block[0], std::byte(t));
        EXPECT_EQ(block[size - 1], std::byte(t));
        heap.free(block);
        blocks.erase(blocks.begin() + static_cast<long>(i_free));
      }
      for (const auto& entry : blocks) heap.free(entry.first);
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(place(heap, heap.allocate(32 * kMiB)), 2 * kMiB);
}

}  // namespace
}  // namespace sheaf::comm

#include "sheaf/comm/host/heap.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
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
  return static_cast<std::size_t>(block - heap.file().data());
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

// Free neighbors are merged, in whatever order they are freed.
TEST(Heap, JoinsFreedNeighbors) {
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

TEST(Heap, FullHeapErrorHasAdvice) {
  Heap heap(4 * kMiB, kReserved);
  heap.allocate(kMiB);
  expect_throws<UsageError>([&] { heap.allocate(16 * kMiB); },
                            {"SHEAF_ARENA_BYTES"});
  heap.allocate(kMiB);  // the heap is still usable
}

TEST(Heap, LeavesASpareToThoseWhoNeedIt) {
  Heap heap(16 * kMiB, kReserved);
  const auto try_to = [&](std::size_t bytes) {
    return heap.try_allocate(bytes, /*spare=*/4 * kMiB);
  };
  EXPECT_EQ(try_to(13 * kMiB), nullptr);
  std::byte* const first = try_to(6 * kMiB);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(place(heap, first), 4 * kMiB);
  EXPECT_EQ(try_to(7 * kMiB), nullptr);
  EXPECT_EQ(place(heap, try_to(6 * kMiB)), 10 * kMiB);
  EXPECT_EQ(try_to(1), nullptr);
  EXPECT_EQ(place(heap, heap.allocate(2 * kMiB)), 2 * kMiB);
  heap.free(first);
  EXPECT_EQ(try_to(6 * kMiB), first);
}

// A small block does not use the place of a large one, which will be needed
// again.
TEST(Heap, KeepsPlacesForBlocksOfTheirSize) {
  Heap heap(256 * kMiB, kReserved);
  const auto make = [&](std::size_t bytes) {
    return heap.try_allocate(bytes, /*spare=*/64 * kMiB);
  };
  std::byte* const first = make(32 * kMiB);
  std::byte* const second = make(32 * kMiB);
  heap.free(first);
  std::byte* const small = make(kMiB / 4);
  EXPECT_EQ(place(heap, small), 256 * kMiB - kMiB / 4);
  EXPECT_EQ(make(32 * kMiB), first);
  heap.free(small);
  EXPECT_EQ(make(kMiB / 4), small);
  heap.free(second);
  EXPECT_EQ(make(16 * kMiB), second);
  EXPECT_EQ(make(16 * kMiB), second + 16 * kMiB);
}

// Physical memory of the heap, in bytes.
std::size_t held_by(const Heap& heap) {
  struct stat status {};
  EXPECT_EQ(fstat(heap.file().fd(), &status), 0);
  return static_cast<std::size_t>(status.st_blocks) * 512;
}

TEST(Heap, KeepsMemoryUntilItIsTrimmed) {
  Heap heap(32 * kMiB, kReserved);
  std::byte* const low = heap.allocate(2 * kMiB);
  std::byte* const middle = heap.allocate(4 * kMiB);
  std::byte* const high = heap.allocate(2 * kMiB);
  std::memset(low, 1, 2 * kMiB);
  std::memset(middle, 2, 4 * kMiB);
  std::memset(high, 3, 2 * kMiB);
  const std::size_t all = held_by(heap);
  heap.free(middle);
  EXPECT_EQ(held_by(heap), all);
  // A part is reused, the rest is released.
  std::byte* const again = heap.allocate(2 * kMiB);
  EXPECT_EQ(again, middle);
  EXPECT_EQ(held_by(heap), all);
  heap.trim();
  EXPECT_EQ(held_by(heap), all - 2 * kMiB);
  for (std::size_t i = 0; i < 2 * kMiB; i += 1000) {
    EXPECT_EQ(low[i], std::byte{1});
    EXPECT_EQ(again[i], std::byte{2});
    EXPECT_EQ(high[i], std::byte{3});
  }
  heap.free(again);
  EXPECT_EQ(heap.allocate(4 * kMiB), middle);
  EXPECT_EQ(held_by(heap), all);
}

// A block is fully committed, whatever was committed before.
TEST(Heap, CommitsWhatIsMissing) {
  Heap heap(64 * kMiB, kReserved);
  std::minstd_rand random(3);
  std::vector<std::byte*> blocks;
  std::size_t most = 0;
  for (int i = 0; i < 300; ++i) {
    const std::size_t bytes = 1 + random() % (kMiB / 2);
    std::byte* const block = heap.allocate(bytes);
    blocks.push_back(block);
    most = std::max(most, place(heap, block) + bytes);
    EXPECT_GE(held_by(heap), i == 0 ? bytes : 0);
    const std::size_t held = held_by(heap);
    std::memset(block, 1, bytes);
    EXPECT_EQ(held_by(heap), held) << "touching took memory";
    if (random() % 3 == 0) continue;
    std::swap(blocks[random() % blocks.size()], blocks.back());
    heap.free(blocks.back());
    blocks.pop_back();
    if (random() % 10 == 0) heap.trim();
  }
  EXPECT_LE(held_by(heap), most + kMiB);
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

// Blocks are committed and released at the same time. There are few records of
// what is committed, so that threads often change the same ones.
TEST(Heap, CommitsForThreads) {
  Heap heap(16 * kMiB, kReserved);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&heap] {
      for (int i = 0; i < 20000; ++i) {
        heap.free(heap.allocate(100));
        if (i % 4 == 0) heap.trim();
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(heap.bytes_in_use(), 0u);
  std::byte* const block = heap.allocate(4 * kMiB);
  const std::size_t held = held_by(heap);
  std::memset(block, 1, 4 * kMiB);
  EXPECT_EQ(held_by(heap), held) << "touching took memory";
}

}  // namespace
}  // namespace sheaf::comm

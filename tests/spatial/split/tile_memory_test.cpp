// Results of operations on split tensors are in the arena, where neighbors read
// them, also in training.

#include "sheaf/spatial/split/tile_memory.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/spatial/ops/windows.hpp"
#include "sheaf/spatial/split/dispatch.hpp"
#include "tests/spatial/on_grids.hpp"
#include "tests/spatial/random_cases.hpp"
#include "tests/spatial/training.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

bool lies_in_arena(const comm::Group& group, const at::Tensor& tensor) {
  return group.core().runtime().memory().is_mine(tensor.data_ptr(),
                                                 tensor.nbytes());
}

std::shared_ptr<Tiles> tiles_of(
    const comm::Group& group, const std::string& grid,
    parallel::Overlap overlap = parallel::Overlap::kAuto) {
  return std::make_shared<Tiles>(group, halo::Grid::parse(grid), overlap);
}

// The tiles of tests are small.
class WithSmallTiles : public testing::Test {
 protected:
  WithSmallTiles() : before_(TileMemory::set_smallest(1)) {}
  ~WithSmallTiles() override { TileMemory::set_smallest(before_); }

 private:
  const std::size_t before_;
};
using TileMemoryTest = WithSmallTiles;
using TileMemoryTraining = WithSmallTiles;

TEST(TileMemory, ServesLargeResultsOfOperations) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto tiles = tiles_of(group, "2x1");
    const at::Tensor large = cut(at::rand({1, 8, 64, 64}), tiles).relu();
    EXPECT_TRUE(lies_in_arena(group, local_of(large)));
    const at::Tensor small = cut(at::rand({1, 1, 64, 64}), tiles).relu();
    EXPECT_FALSE(lies_in_arena(group, local_of(small)));
    EXPECT_FALSE(lies_in_arena(group, at::rand({1, 8, 64, 64})));
  });
}

TEST_F(TileMemoryTest, IsUsedByARankAloneOnItsHost) {
  comm::run_threads({"a", "b"}, [](const comm::Group& group) {
    const auto tiles = tiles_of(group, "2x1");
    const at::Tensor made = cut(at::rand({1, 8, 64, 64}), tiles).relu();
    EXPECT_TRUE(lies_in_arena(group, local_of(made)));
  });
}

TEST_F(TileMemoryTest, TensorsMayOutliveTheWorld) {
  at::Tensor kept;
  comm::run_threads(2, [&](const comm::Group& group) {
    const at::Tensor made =
        cut(at::ones({1, 8, 64, 64}), tiles_of(group, "2x1")).mul(3);
    if (group.rank() == 0) kept = local_of(made);
  });
  EXPECT_EQ(kept.sum().item<double>(), 3 * 8 * 32 * 64);
}

struct ThreeLayers {
  at::Tensor image = random({1, 1, 24, 24}, at::kFloat, 1);
  Tensors weights{random({4, 1, 3, 3}, at::kFloat, 2).requires_grad_(),
                  random({4, 4, 5, 5}, at::kFloat, 3).requires_grad_(),
                  random({2, 4, 3, 3}, at::kFloat, 4).requires_grad_()};

  at::Tensor loss(const std::shared_ptr<Tiles>& tiles) const {
    at::Tensor x = cut(image, tiles);
    for (const at::Tensor& weight : weights)
      x = at::conv2d(x, weight, {}, 1, (weight.size(2) - 1) / 2).relu();
    return x.square().mean();
  }
};

std::vector<ExchangeNote> notes_of(const ThreeLayers& net,
                                   const std::shared_ptr<Tiles>& tiles) {
  std::vector<ExchangeNote> notes;
  tiles->listen([&](const ExchangeNote& note) {
    if (note.halo != "sum of all ranks") notes.push_back(note);
  });
  net.loss(tiles).backward();
  tiles->listen(nullptr);
  return notes;
}

// All but the image, which users may allocate anywhere.
TEST_F(TileMemoryTest, HalosOfATrainingAreReadInPlace) {
  for (const auto overlap : {parallel::Overlap::kOff, parallel::Overlap::kOn})
    for (const char* grid : {"2x1", "1x2", "2x2", "3x1"})
      comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
        const auto tiles = tiles_of(group, grid, overlap);
        const auto notes = notes_of({}, tiles);
        ASSERT_EQ(notes.size(), 5u);
        std::int64_t in_place = notes[0].bytes_in_place;
        for (std::size_t i = 1; i < notes.size(); ++i) {
          EXPECT_GT(notes[i].bytes, 0);
          EXPECT_EQ(notes[i].bytes_in_place, notes[i].bytes)
              << notes[i].operation << " on " << grid << ", note " << i;
          in_place += notes[i].bytes_in_place;
        }
        EXPECT_EQ(tiles->stats().halo_bytes_in_place, in_place);
      });
}

TEST_F(TileMemoryTest, BetweenHostsHalosArePacked) {
  comm::run_threads({"a", "a", "b"}, [](const comm::Group& group) {
    const auto notes = notes_of({}, tiles_of(group, "3x1"));
    for (const ExchangeNote& note : notes)
      if (group.rank() == 2) EXPECT_EQ(note.bytes_in_place, 0);
    // One of rank 1's neighbors is on this host; its image is packed.
    if (group.rank() == 1)
      for (std::size_t i = 1; i < notes.size(); ++i)
        EXPECT_EQ(notes[i].bytes_in_place, notes[i].bytes / 2);
  });
}

// Allocates all of the arena that tiles may use.
std::byte* fill(comm::Heap& heap) {
  const std::size_t quarter = heap.file().size() / 4;
  return heap.try_allocate(3 * quarter, quarter);
}

// Without room in the arena, everything works as without an arena for tiles.
TEST_F(TileMemoryTest, AFullArenaIsLeftToExchanges) {
  comm::run_threads(2, [](const comm::Group& group) {
    comm::Heap& heap = group.core().runtime().memory().heap();
    std::byte* const most = fill(heap);
    const auto tiles = tiles_of(group, "2x1");
    for (const ExchangeNote& note : notes_of({}, tiles))
      EXPECT_EQ(note.bytes_in_place, 0);
    heap.free(most);
    const auto notes = notes_of({}, tiles);
    EXPECT_EQ(notes.back().bytes_in_place, notes.back().bytes);
  });
}

// Ranks need not agree on the location of their tiles.
TEST_F(TileMemoryTest, OneRankMayHaveNoRoom) {
  const Case layers{"two layers",
                    {1, 1, 24, 24},
                    {{4, 1, 3, 3}, {4, 4, 5, 5}},
                    [](const at::Tensor& x, const Tensors& w) {
                      return at::conv2d(at::conv2d(x, w[0], {}, 1, 1).relu(),
                                        w[1], {}, 1, 2);
                    }};
  const Results wanted = alone(layers, at::kDouble);
  comm::run_threads(3, [&](const comm::Group& group) {
    comm::Heap& heap = group.core().runtime().memory().heap();
    if (group.rank() == 1) fill(heap);
    const auto tiles = tiles_of(group, "3x1");
    expect_same(layers, wanted, tiles, at::kDouble, 1e-12);
    EXPECT_EQ(tiles->stats().halo_bytes_in_place > 0, group.rank() != 1);
  });
}

// A failed pass does not leave the arena active on a thread.
TEST_F(TileMemoryTest, EndsWithThePassOrWithTheNextOperation) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto tiles = tiles_of(group, "2x1");
    const ThreeLayers net;
    net.loss(tiles).backward();
    EXPECT_FALSE(lies_in_arena(group, at::rand({1, 8, 64, 64})));
    const at::Tensor image = random({1, 1, 24, 24}, at::kFloat, 1);
    const at::Tensor scale = at::ones({1}).requires_grad_();
    const at::Tensor scaled = cut(image, tiles).mul(scale);
    local_of(scaled).register_hook([](const at::Tensor&) -> at::Tensor {
      throw UsageError("no gradient, please");
    });
    const at::Tensor loss = at::conv2d(scaled, net.weights[0]).sum();
    EXPECT_ANY_THROW(loss.backward());
    cut(image, tiles).relu();
    EXPECT_FALSE(lies_in_arena(group, at::rand({1, 8, 64, 64})));
  });
}

// The first of two ranks convolves. The second one takes part in the exchange
// explicitly, and reads its halo only when requested.
class SlowNeighbor {
 public:
  explicit SlowNeighbor(const std::shared_ptr<Tiles>& tiles)
      : split_(split_of(cut(image(), tiles))),
        plan_(plan_windows(split_,
                           windows_of({3, 3}, {1, 1}, {1, 1}, {1, 1}, false))),
        exchange_(
            tiles->exchange(split_.layout, boxes_of(plan_.needs), DType::kF32)),
        tile_(own_part(image(), split_).contiguous()),
        handle_(exchange_.start(view_of(tile_))) {}

  static at::Tensor image() { return random({1, 2, 64, 64}, at::kFloat, 1); }
  static at::Tensor convolve(const at::Tensor& x) {
    return at::conv2d(x, random({2, 2, 3, 3}, at::kFloat, 2), {}, 1, 1);
  }

  void expect_halo() {
    const auto& needs = plan_.needs[1];
    const at::Tensor got = inside_of(grown_tile(tile_, needs, 0), needs);
    exchange_.finish(handle_, view_of(got));
    EXPECT_TRUE(at::equal(got, image().narrow(2, 31, 33)));
  }

 private:
  const Split split_;
  const WindowPlan plan_;
  halo::HaloExchange& exchange_;
  const at::Tensor tile_;
  halo::HaloExchange::Handle handle_;
};

void with_slow_neighbor(
    const std::function<void(const std::shared_ptr<Tiles>&)>& first,
    const std::function<void(SlowNeighbor&)>& second) {
  comm::run_threads(2, [&](const comm::Group& group) {
    const at::NoGradGuard no_grad;
    const auto tiles = tiles_of(group, "2x1");
    if (group.rank() == 0) {
      first(tiles);
    } else {
      SlowNeighbor neighbor(tiles);
      second(neighbor);
    }
    comm::barrier(group).wait();
    tiles->lent().wait_for(at::empty({1}));
    EXPECT_TRUE(tiles->lent().is_empty());
  });
}

TEST_F(TileMemoryTest, WhatIsStillReadIsNotUsedAgain) {
  std::latch is_freed(1);
  with_slow_neighbor(
      [&](const std::shared_ptr<Tiles>& tiles) {
        at::Tensor x = cut(SlowNeighbor::image(), tiles).mul(1);
        const void* const place = local_of(x).data_ptr();
        const at::Tensor y = SlowNeighbor::convolve(x);
        EXPECT_FALSE(tiles->lent().is_empty());
        x.reset();
        std::vector<at::Tensor> others;
        for (int i = 0; i < 20; ++i) {
          others.push_back(cut(SlowNeighbor::image(), tiles).mul(0));
          EXPECT_NE(local_of(others.back()).data_ptr(), place);
        }
        is_freed.count_down();
      },
      [&](SlowNeighbor& neighbor) {
        is_freed.wait();
        neighbor.expect_halo();
      });
}

TEST_F(TileMemoryTest, WritingWaitsForThoseWhoRead) {
  std::latch is_sent(1);
  std::atomic<bool> is_read = false, is_written = false;
  with_slow_neighbor(
      [&](const std::shared_ptr<Tiles>& tiles) {
        const at::Tensor x = cut(SlowNeighbor::image(), tiles).mul(1);
        const at::Tensor y = SlowNeighbor::convolve(x);
        is_sent.count_down();
        x.view({2, 64, 64}).narrow(0, 0, 2).fill_(7);
        is_written = true;
        EXPECT_TRUE(is_read);
        EXPECT_EQ(local_of(x).mean().item<double>(), 7);
      },
      [&](SlowNeighbor& neighbor) {
        is_sent.wait();
        // Enough time for a rank that does not wait.
        for (int i = 0; i < 5000 && !is_written; ++i) std::this_thread::yield();
        EXPECT_FALSE(is_written);
        is_read = true;
        neighbor.expect_halo();
      });
}

TEST_F(TileMemoryTest, TilesEndWhenAllHaveRead) {
  std::latch is_sent(1);
  std::atomic<bool> is_read = false;
  comm::run_threads(2, [&](const comm::Group& group) {
    const at::NoGradGuard no_grad;
    auto tiles = tiles_of(group, "2x1");
    if (group.rank() == 0) {
      SlowNeighbor::convolve(cut(SlowNeighbor::image(), tiles).mul(1));
      is_sent.count_down();
      tiles.reset();
      EXPECT_TRUE(is_read);
    } else {
      SlowNeighbor neighbor(tiles);
      is_sent.wait();
      for (int i = 0; i < 1000; ++i) std::this_thread::yield();
      is_read = true;
      neighbor.expect_halo();
    }
  });
}

TEST_F(TileMemoryTest, RandomWindowsGiveWhatOneProcessGives) {
  for (const auto overlap : {parallel::Overlap::kOn, parallel::Overlap::kOff})
    for (const char* grid : {"2", "3", "6", "1x2", "2x2", "3x2"})
      expect_on_grids(random_cases(halo::Grid::parse(grid), 60), {grid},
                      at::kDouble, 1e-12, overlap);
}

template <class Net>
void expect_losses_in_arena(const Task& task) {
  const auto wanted = losses_alone<Net>(task);
  for (const std::string grid : {"1x2", "2x2", "2x3"})
    comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
      expect_near(losses_on<Net>(grid, 1, task, group), wanted, grid);
    });
}

TEST_F(TileMemoryTraining, HasTheLossesOfOneProcess) {
  expect_losses_in_arena<ConvNetImpl>({});
  expect_losses_in_arena<ResidualNetImpl>({.image = 17});
  expect_losses_in_arena<UNetImpl>(
      {.image = 18, .has_classes_of_pixels = true});
}

}  // namespace
}  // namespace sheaf::spatial

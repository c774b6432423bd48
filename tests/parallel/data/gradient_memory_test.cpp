#include "sheaf/parallel/data/gradient_memory.hpp"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

#include "sheaf/comm/group/group_core.hpp"
#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

constexpr std::int64_t kElements = 100'000;
constexpr std::size_t kBytes = kElements * sizeof(float);

bool is_in_arena(const comm::Group& group, const at::Tensor& tensor) {
  return group.core().runtime().memory().is_mine(tensor.data_ptr(),
                                                 tensor.nbytes());
}

void with_memory(
    const std::function<void(const comm::Group&, GradientMemory&)>& body) {
  comm::run_threads(1, [&](const comm::Group& group) {
    GradientMemory memory(group, {kBytes});
    body(group, memory);
    GradientMemory::leave();
  });
}

TEST(GradientMemory, ServesItsSizesBetweenEnterAndLeave) {
  with_memory([](const comm::Group& group, GradientMemory& memory) {
    EXPECT_FALSE(is_in_arena(group, at::empty({kElements})));
    memory.enter();
    EXPECT_TRUE(is_in_arena(group, at::empty({kElements})));
    EXPECT_TRUE(is_in_arena(group, at::empty({kElements / 2}, at::kDouble)));
    EXPECT_FALSE(is_in_arena(group, at::empty({kElements - 1})));
    std::thread([&] {
      EXPECT_FALSE(is_in_arena(group, at::empty({kElements})));
    }).join();
    GradientMemory::leave();
    EXPECT_FALSE(is_in_arena(group, at::empty({kElements})));
  });
}

TEST(GradientMemory, UsesBlocksAgain) {
  with_memory([](const comm::Group&, GradientMemory& memory) {
    memory.enter();
    auto first = at::empty({kElements});
    const void* const place = first.data_ptr();
    auto second = at::empty({kElements});
    EXPECT_NE(second.data_ptr(), place);
    first.reset();
    EXPECT_EQ(at::empty({kElements}).data_ptr(), place);
  });
}

TEST(GradientMemory, TensorsMayOutliveIt) {
  at::Tensor tensor;
  with_memory([&](const comm::Group&, GradientMemory& memory) {
    memory.enter();
    tensor = at::ones({kElements});
  });
  EXPECT_EQ(tensor.sum().item<double>(), kElements);
}

// As used by libraries within libtorch that do not use tensors.
TEST(GradientMemory, BareAddressesGoBackToWhereTheyCameFrom) {
  with_memory([](const comm::Group& group, GradientMemory& memory) {
    auto* const allocator = c10::GetCPUAllocator();
    memory.enter();
    void* const ours = allocator->raw_allocate(kBytes);
    EXPECT_TRUE(group.core().runtime().memory().is_mine(ours, kBytes));
    void* const theirs = allocator->raw_allocate(64);
    allocator->raw_deallocate(ours);
    allocator->raw_deallocate(theirs);
    EXPECT_EQ(at::empty({kElements}).data_ptr(), ours);
  });
}

// Gradients are then in ordinary memory, and are exchanged from there.
TEST(GradientMemory, AFullArenaLeavesItToLibtorch) {
  with_memory([](const comm::Group& group, GradientMemory& memory) {
    auto& heap = group.core().runtime().memory().heap();
    std::vector<std::byte*> blocks;
    for (std::size_t bytes = std::size_t{1} << 40; bytes >= kBytes / 2;)
      if (std::byte* const block = heap.try_allocate(bytes, /*spare=*/1))
        blocks.push_back(block);
      else
        bytes /= 2;
    memory.enter();
    const at::Tensor tensor = at::ones({kElements});
    EXPECT_FALSE(is_in_arena(group, tensor));
    EXPECT_EQ(tensor.sum().item<double>(), kElements);
    for (std::byte* const block : blocks) heap.free(block);
    EXPECT_TRUE(is_in_arena(group, at::empty({kElements})));
  });
}

}  // namespace
}  // namespace sheaf::parallel

#include "sheaf/tensor/groups/memory_source.hpp"

#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <thread>

namespace sheaf::tensor {
namespace {

constexpr std::int64_t kBytes = 4096;

// One block of ordinary memory, for allocations of exactly its size.
class OneBlock final : public MemorySource {
 public:
  Memory take(std::size_t bytes) override {
    if (bytes != kBytes) return {};
    std::byte* const block = block_.get();
    return {block, [keep = block_](std::byte*) {}};
  }
  const void* place() const { return block_.get(); }

 private:
  std::shared_ptr<std::byte> block_{
      static_cast<std::byte*>(std::aligned_alloc(64, kBytes)), std::free};
};

class MemorySources : public testing::Test {
 protected:
  ~MemorySources() override {
    use_source(SourceKind::kGradients, 0);
    use_source(SourceKind::kTiles, 0);
  }
  static at::Tensor make() { return at::empty({kBytes}, at::kByte); }

  std::shared_ptr<OneBlock> first_ = std::make_shared<OneBlock>();
  std::shared_ptr<OneBlock> second_ = std::make_shared<OneBlock>();
  SourceId first_id_ = add_source(first_);
  SourceId second_id_ = add_source(second_);
};

TEST_F(MemorySources, ServeTheThreadThatUsesThem) {
  EXPECT_FALSE(is_from_source(make()));
  EXPECT_EQ(use_source(SourceKind::kTiles, first_id_), 0u);
  EXPECT_EQ(source_in_use(SourceKind::kTiles), first_id_);
  const at::Tensor made = make();
  EXPECT_EQ(made.data_ptr(), first_->place());
  EXPECT_TRUE(is_from_source(made));
  EXPECT_TRUE(is_from_source(made.narrow(0, 5, 7)));
  EXPECT_FALSE(is_from_source(at::empty({kBytes + 1}, at::kByte)));
  EXPECT_FALSE(is_from_source(at::empty({0}, at::kByte)));
  std::thread([] { EXPECT_FALSE(is_from_source(make())); }).join();
  EXPECT_EQ(use_source(SourceKind::kTiles, 0), first_id_);
  EXPECT_FALSE(is_from_source(make()));
}

TEST_F(MemorySources, AreAskedInOrder) {
  use_source(SourceKind::kTiles, second_id_);
  use_source(SourceKind::kGradients, first_id_);
  EXPECT_EQ(make().data_ptr(), first_->place());
  use_source(SourceKind::kGradients, 0);
  EXPECT_EQ(make().data_ptr(), second_->place());
}

TEST_F(MemorySources, MayEndWhileAThreadUsesThem) {
  use_source(SourceKind::kTiles, first_id_);
  const at::Tensor made = make().fill_(3);
  first_.reset();
  EXPECT_FALSE(is_from_source(make()));
  EXPECT_EQ(made.sum().item<std::int64_t>(), 3 * kBytes);
}

// Some libraries inside libtorch use the allocator without tensors.
TEST_F(MemorySources, BareAddressesGoBackToWhereTheyCameFrom) {
  use_source(SourceKind::kTiles, first_id_);
  auto* const allocator = c10::GetCPUAllocator();
  void* const ours = allocator->raw_allocate(kBytes);
  EXPECT_EQ(ours, first_->place());
  void* const theirs = allocator->raw_allocate(64);
  allocator->raw_deallocate(ours);
  allocator->raw_deallocate(theirs);
}

// A tensor that grows uses the allocator that it came from.
TEST_F(MemorySources, TensorsMayGrow) {
  use_source(SourceKind::kTiles, first_id_);
  at::Tensor made = make().fill_(2);
  use_source(SourceKind::kTiles, 0);
  made.resize_({2 * kBytes});
  EXPECT_FALSE(is_from_source(made));
  EXPECT_EQ(made.narrow(0, 0, kBytes).sum().item<std::int64_t>(), 2 * kBytes);
}

}  // namespace
}  // namespace sheaf::tensor

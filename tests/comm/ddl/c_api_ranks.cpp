// Every C function between real processes, in a world of its own.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "sheaf/sheaf.h"

namespace {

class CApiRanks : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sheaf_init_devices("-mode b", 1), SHEAF_OK) << sheaf_last_error();
    rank_ = sheaf_rank();
    size_ = sheaf_size();
  }
  void TearDown() override {
    EXPECT_EQ(sheaf_finalize(), SHEAF_OK) << sheaf_last_error();
  }
  int sum_of_ranks() const { return size_ * (size_ - 1) / 2; }
  std::size_t ranks() const { return static_cast<std::size_t>(size_); }

  int rank_ = 0;
  int size_ = 1;
};

TEST_F(CApiRanks, AllReduces) {
  void* memory = nullptr;
  ASSERT_EQ(sheaf_malloc(&memory, 64, 1000 * sizeof(float)), SHEAF_OK);
  auto* data = static_cast<float*>(memory);
  for (int i = 0; i < 1000; ++i) data[i] = static_cast<float>(rank_);
  EXPECT_EQ(sheaf_all_reduce(data, 1000, SHEAF_F32, SHEAF_SUM), SHEAF_OK);
  EXPECT_EQ(data[999], static_cast<float>(sum_of_ranks()));
  EXPECT_EQ(sheaf_all_reduce_mpi(data, 1000, SHEAF_F32, SHEAF_AVG), SHEAF_OK)
      << sheaf_last_error();
  EXPECT_EQ(data[0], static_cast<float>(sum_of_ranks()));
  const sheaf_reduce_options both = {1, 1.0};
  EXPECT_EQ(sheaf_all_reduce_with(data, 1000, SHEAF_F32, SHEAF_AVG, &both),
            SHEAF_OK);
  EXPECT_EQ(sheaf_all_reduce(data, 1000, SHEAF_F32, SHEAF_MAX), SHEAF_OK);
  EXPECT_EQ(data[0], static_cast<float>(sum_of_ranks()));
  EXPECT_EQ(sheaf_free(memory), SHEAF_OK);
}

TEST_F(CApiRanks, ReducesSeveralBuffers) {
  std::vector<double> a(3, rank_), b(4, 1);
  void* data[] = {a.data(), b.data()};
  const size_t counts[] = {3, 4};
  const sheaf_reduce_options options = {0, 1.0};
  EXPECT_EQ(sheaf_all_reduce_n(data, counts, 2, SHEAF_F64, SHEAF_SUM, &options),
            SHEAF_OK);
  EXPECT_EQ(a[2], sum_of_ranks());
  EXPECT_EQ(b[3], size_);
  EXPECT_EQ(sheaf_all_reduce_n(data, counts, 2, SHEAF_F64, SHEAF_MIN, nullptr),
            SHEAF_OK);
  EXPECT_EQ(b[3], size_);
}

TEST_F(CApiRanks, MovesBlocks) {
  const std::vector<std::int32_t> mine(2, rank_ + 10);
  std::vector<std::int32_t> all(2 * ranks());
  EXPECT_EQ(sheaf_all_gather(mine.data(), all.data(), 2, SHEAF_I32), SHEAF_OK);
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(all[i], static_cast<int>(i / 2) + 10);
  const int root = size_ - 1;
  std::vector<std::int32_t> gathered(2 * ranks());
  EXPECT_EQ(sheaf_gather(mine.data(), rank_ == root ? gathered.data() : nullptr,
                         2, SHEAF_I32, root),
            SHEAF_OK);
  if (rank_ == root) {
    EXPECT_EQ(gathered, all);
  }
  std::vector<std::int32_t> part(2);
  EXPECT_EQ(sheaf_scatter(rank_ == root ? gathered.data() : nullptr,
                          part.data(), 2, SHEAF_I32, root),
            SHEAF_OK);
  EXPECT_EQ(part, mine);
  std::vector<std::int32_t> sent(ranks()), received(ranks());
  for (int i = 0; i < size_; ++i)
    sent[static_cast<std::size_t>(i)] = rank_ * 100 + i;
  EXPECT_EQ(sheaf_all_to_all(sent.data(), received.data(), 1, SHEAF_I32),
            SHEAF_OK);
  for (int i = 0; i < size_; ++i)
    EXPECT_EQ(received[static_cast<std::size_t>(i)], i * 100 + rank_);
}

TEST_F(CApiRanks, ReducesToOneAndToBlocks) {
  std::vector<std::int64_t> input(ranks(), rank_), output(ranks(), -1);
  EXPECT_EQ(sheaf_reduce(input.data(), rank_ == 0 ? output.data() : nullptr,
                         ranks(), SHEAF_I64, SHEAF_SUM, 0),
            SHEAF_OK);
  if (rank_ == 0) {
    EXPECT_EQ(output[0], sum_of_ranks());
  }
  std::int64_t mine = -1;
  EXPECT_EQ(sheaf_reduce_scatter(input.data(), &mine, 1, SHEAF_I64, SHEAF_SUM),
            SHEAF_OK);
  EXPECT_EQ(mine, sum_of_ranks());
  EXPECT_EQ(sheaf_barrier(), SHEAF_OK);
}

TEST_F(CApiRanks, Broadcasts) {
  std::vector<float> data(5, static_cast<float>(rank_));
  EXPECT_EQ(sheaf_broadcast(data.data(), 5, SHEAF_F32, size_ - 1), SHEAF_OK);
  EXPECT_EQ(data[4], static_cast<float>(size_ - 1));
  data.assign(5, static_cast<float>(rank_));
  EXPECT_EQ(sheaf_bcast(data.data(), 5, SHEAF_F32), SHEAF_OK);
  EXPECT_EQ(data[0], 0);
}

TEST_F(CApiRanks, SendsAndReceives) {
  if (size_ == 1) GTEST_SKIP() << "nobody to send to";
  std::int32_t value = rank_;
  if (rank_ == 1) {
    EXPECT_EQ(sheaf_send(&value, 1, SHEAF_I32, 0, /*tag=*/7), SHEAF_OK);
  } else if (rank_ == 0) {
    int source = -1;
    EXPECT_EQ(sheaf_recv(&value, 1, SHEAF_I32, SHEAF_ANY_SOURCE, 7, &source),
              SHEAF_OK);
    EXPECT_EQ(source, 1);
    EXPECT_EQ(value, 1);
  }
}

}  // namespace

// The C functions in a world of one process; c_api_ranks.cpp has several.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <thread>

#include "sheaf/sheaf.h"
#include "tests/comm/ddl/dump_folder.hpp"

namespace {

class CApi : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(sheaf_init(nullptr), SHEAF_OK) << sheaf_last_error();
  }
  void TearDown() override { EXPECT_EQ(sheaf_finalize(), SHEAF_OK); }
};

bool says(const char* part) {
  return std::strstr(sheaf_last_error(), part) != nullptr;
}

TEST(CApiWithoutWorld, EverythingIsAnErrorWithAText) {
  float data[2] = {1, 2};
  EXPECT_EQ(sheaf_initialized(), 0);
  EXPECT_EQ(sheaf_rank(), -1);
  EXPECT_EQ(sheaf_size(), -1);
  EXPECT_EQ(sheaf_device(), -1);
  EXPECT_EQ(sheaf_all_reduce(data, 2, SHEAF_F32, SHEAF_SUM), SHEAF_ERROR_USAGE);
  EXPECT_TRUE(says("init()")) << sheaf_last_error();
  EXPECT_EQ(sheaf_barrier(), SHEAF_ERROR_USAGE);
  EXPECT_EQ(sheaf_finalize(), SHEAF_ERROR_USAGE);
}

TEST(CApiWithoutWorld, WrongOptionsAreUsageErrors) {
  EXPECT_EQ(sheaf_init("-mode c"), SHEAF_ERROR_USAGE);
  EXPECT_TRUE(says("never documented publicly")) << sheaf_last_error();
  EXPECT_EQ(sheaf_init("-mode b:2x2"), SHEAF_ERROR_USAGE);
  EXPECT_EQ(sheaf_initialized(), 0);
}

TEST_F(CApi, ReturnsRankSizeHostsAndDevice) {
  EXPECT_EQ(sheaf_initialized(), 1);
  EXPECT_EQ(sheaf_rank(), 0);
  EXPECT_EQ(sheaf_size(), 1);
  EXPECT_EQ(sheaf_local_rank(), 0);
  EXPECT_EQ(sheaf_local_size(), 1);
  EXPECT_EQ(sheaf_num_hosts(), 1);
  EXPECT_EQ(sheaf_device(), -1);
  EXPECT_EQ(sheaf_init(""), SHEAF_ERROR_USAGE);
}

TEST_F(CApi, AllocatesAligned) {
  void* memory = nullptr;
  ASSERT_EQ(sheaf_malloc(&memory, 4096, 100), SHEAF_OK);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 4096, 0u);
  EXPECT_EQ(sheaf_free(memory), SHEAF_OK);
  EXPECT_EQ(sheaf_free(memory), SHEAF_ERROR_USAGE);
  EXPECT_EQ(sheaf_malloc(&memory, 3, 100), SHEAF_ERROR_USAGE);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(sheaf_malloc(nullptr, 64, 100), SHEAF_ERROR_USAGE);
}

TEST_F(CApi, RefusesWhatIsNotAllowed) {
  float data[2] = {1, 2};
  EXPECT_EQ(sheaf_all_reduce(nullptr, 2, SHEAF_F32, SHEAF_SUM),
            SHEAF_ERROR_USAGE);
  EXPECT_TRUE(says("NULL")) << sheaf_last_error();
  EXPECT_EQ(sheaf_all_reduce(data, 2, static_cast<sheaf_dtype>(10), SHEAF_SUM),
            SHEAF_ERROR_USAGE);
  EXPECT_EQ(sheaf_all_reduce(data, 2, SHEAF_F32, static_cast<sheaf_op>(-1)),
            SHEAF_ERROR_USAGE);
  EXPECT_EQ(sheaf_all_reduce(data, 2, SHEAF_F32, SHEAF_BIT_OR),
            SHEAF_ERROR_USAGE);
  EXPECT_EQ(sheaf_broadcast(data, 2, SHEAF_F32, 1), SHEAF_ERROR_USAGE);
  EXPECT_EQ(
      sheaf_all_reduce_n(nullptr, nullptr, 2, SHEAF_F32, SHEAF_SUM, nullptr),
      SHEAF_ERROR_USAGE);
  const sheaf_reduce_options wrong = {0, -1};
  EXPECT_EQ(sheaf_all_reduce_with(data, 2, SHEAF_F32, SHEAF_SUM, &wrong),
            SHEAF_ERROR_USAGE);
  EXPECT_TRUE(says("check is -1")) << sheaf_last_error();
}

TEST_F(CApi, ASingleRankReducesToItself) {
  const std::int64_t input[] = {3, -4};
  std::int64_t output[] = {0, 0};
  EXPECT_EQ(sheaf_reduce(input, output, 2, SHEAF_I64, SHEAF_SUM, /*root=*/0),
            SHEAF_OK);
  EXPECT_EQ(output[0], 3);
  EXPECT_EQ(output[1], -4);
  EXPECT_EQ(sheaf_reduce(input, output, 2, SHEAF_I64, SHEAF_SUM, /*root=*/1),
            SHEAF_ERROR_USAGE);
  EXPECT_TRUE(says("root 1")) << sheaf_last_error();
}

TEST_F(CApi, EachThreadHasItsOwnError) {
  EXPECT_EQ(sheaf_all_reduce(nullptr, 2, SHEAF_F32, SHEAF_SUM),
            SHEAF_ERROR_USAGE);
  std::thread([] { EXPECT_STREQ(sheaf_last_error(), ""); }).join();
  EXPECT_TRUE(says("NULL"));
}

TEST_F(CApi, EmptyBuffersMayBeNull) {
  EXPECT_EQ(sheaf_all_reduce(nullptr, 0, SHEAF_F32, SHEAF_SUM), SHEAF_OK);
  EXPECT_EQ(
      sheaf_all_reduce_n(nullptr, nullptr, 0, SHEAF_F32, SHEAF_SUM, nullptr),
      SHEAF_OK);
}

}  // namespace

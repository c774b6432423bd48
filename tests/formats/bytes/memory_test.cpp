#include "sheaf/formats/bytes/memory.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::formats {
namespace {

constexpr std::uint64_t kGrant = std::uint64_t{100} << 20;

std::optional<std::uint64_t> granted() { return kGrant; }
std::optional<std::uint64_t> unknown() { return std::nullopt; }
std::optional<std::uint64_t> scarce() { return kMemoryLeft - 1; }

TEST(FileMemory, IsCheckedAgainstWhatIsAvailable) {
  check_memory("file", "it", kGrant - kMemoryLeft, granted);
  expect_throws<IoError>(
      [] { check_memory("file", "it", kGrant - kMemoryLeft + 1, granted); },
      {"file: it needs", "100 MiB is available", "64 MiB are left"});
  expect_throws<IoError>(
      [] { check_memory("file", "it", ~std::uint64_t{0}, granted); }, {"file"});
  check_memory("file", "it", ~std::uint64_t{0}, unknown);
}

TEST(FileMemory, SmallRequestsAreNotChecked) {
  check_memory("file", "it", kMemoryPart - 1, scarce);
  expect_throws<IoError>(
      [] { check_memory("file", "it", kMemoryPart, scarce); }, {"file"});
}

TEST(FileMemory, KeepsItsContentWhenItGrows) {
  Memory memory = allocate("file", "it", 3);
  for (int i = 0; i < 3; ++i) memory[i] = static_cast<std::uint8_t>(i + 1);
  resize(memory, "file", "it", 5'000'000);
  EXPECT_EQ(memory[2], 3);
  memory[4'999'999] = 9;
  EXPECT_EQ(memory[4'999'999], 9);
  EXPECT_TRUE(allocate("file", "it", 0));
}

// Sanitizers end the process instead.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(FileMemory, WhatTheSystemDoesNotProvideIsAnError) {
  Memory memory = allocate("file", "it", 3);
  memory[2] = 7;
  expect_throws<IoError>(
      [&] { resize(memory, "file", "it", std::size_t{1} << 62); },
      {"file: it needs", "which the system does not provide"});
  EXPECT_EQ(memory[2], 7);
}
#endif

}  // namespace
}  // namespace sheaf::formats

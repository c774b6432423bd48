#include "sheaf/base/system.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <cstdlib>
#include <memory>

namespace sheaf {
namespace {

TEST(Host, HasTheKernelsName) {
  utsname names{};
  ASSERT_EQ(::uname(&names), 0);
  EXPECT_EQ(host_name(), names.nodename);
}

TEST(Host, IsTheSameBootAllTheTime) {
  EXPECT_EQ(boot_id(), boot_id());
  EXPECT_EQ(boot_id().size(), 36u) << boot_id();  // a UUID
}

constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 16384;

// Number of page faults for a block that is used and then freed.
long pages_fetched() {
  rusage before{}, after{};
  getrusage(RUSAGE_SELF, &before);
  const std::unique_ptr<void, decltype(&std::free)> block(
      std::malloc(kPages * kPage), std::free);
  for (std::size_t i = 0; i < kPages; ++i)
    static_cast<volatile char*>(block.get())[i * kPage] = 1;
  getrusage(RUSAGE_SELF, &after);
  return after.ru_minflt - before.ru_minflt;
}

TEST(FreedMemory, IsThereForTheNextBlock) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer has its own malloc";
#endif
  pages_fetched();
  const long before = pages_fetched();
  keep_freed_memory();
  pages_fetched();
  EXPECT_LT(10 * pages_fetched(), before);
}

}  // namespace

}  // namespace sheaf

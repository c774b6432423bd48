#include <gtest/gtest.h>

#include <cstring>
#include <future>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/transport/transport.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

using std::chrono::milliseconds;

TEST(Bootstrap, EveryRankGetsTheBytesOfAllInRankOrder) {
  for (const int ranks : {1, 2, 5}) {
    const auto transports = make_thread_transports(ranks);
    std::vector<std::future<std::vector<std::byte>>> results;
    for (const auto& transport : transports)
      results.push_back(std::async(std::launch::async, [&transport] {
        const int mine = 10 * transport->rank() + 7;
        return bootstrap_all_gather(*transport, &mine, sizeof mine,
                                    std::chrono::minutes(5));
      }));
    for (auto& result : results) {
      const auto bytes = result.get();
      std::vector<int> all(static_cast<std::size_t>(ranks));
      ASSERT_EQ(bytes.size(), all.size() * sizeof(int));
      std::memcpy(all.data(), bytes.data(), bytes.size());
      for (int rank = 0; rank < ranks; ++rank)
        EXPECT_EQ(all[static_cast<std::size_t>(rank)], 10 * rank + 7);
    }
  }
}

TEST(Bootstrap, RankZeroNamesTheRanksThatAreMissing) {
  const auto transports = make_thread_transports(4);
  const int mine = 0;
  // The message of rank 2 is in its mailbox before rank 0 begins.
  expect_throws<TimeoutError>(
      [&] {
        bootstrap_all_gather(*transports[2], &mine, sizeof mine,
                             milliseconds(1));
      },
      {"rank 2: startup timed out after 1 ms", "no message from rank 0;"});
  expect_throws<TimeoutError>(
      [&] {
        bootstrap_all_gather(*transports[0], &mine, sizeof mine,
                             milliseconds(1));
      },
      {"rank 0: startup timed out", "no message from rank 1 3;",
       "every rank calls init"});
}

}  // namespace
}  // namespace sheaf::comm

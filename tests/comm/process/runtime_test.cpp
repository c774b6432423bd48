#include "sheaf/comm/process/runtime.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "sheaf/base/error.hpp"
#include "tests/comm/process/runtimes.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

using test::run_runtimes;

TEST(Runtime, KnowsRanksAndHosts) {
  run_runtimes({"b", "a", "b"}, [](Runtime& runtime) {
    EXPECT_EQ(runtime.size(), 3);
    EXPECT_EQ(runtime.host_map().host_count(), 2);
    EXPECT_EQ(runtime.host_names(), (std::vector<std::string>{"b", "a"}));
    EXPECT_EQ(runtime.host_map().is_local(0), runtime.rank() != 1);
    EXPECT_EQ(runtime.memory().local_size(), runtime.rank() == 1 ? 1 : 2);
  });
}

TEST(Runtime, DefaultTimeoutIsFiveMinutes) {
  run_runtimes({"a"}, [](Runtime& runtime) {
    EXPECT_EQ(runtime.timeout(), kDefaultTimeout);
  });
  topo::Options options;
  options.timeout_ms = 1234;
  run_runtimes(
      {"a"},
      [](Runtime& runtime) {
        EXPECT_EQ(runtime.timeout(), std::chrono::milliseconds(1234));
      },
      options);
}

TEST(Runtime, TheEnvironmentTurnsTheGuardOff) {
  const auto guard = [](const char* value) {
    const test::ScopedVariable variable("SHEAF_GUARD", value);
    bool has_guard = false;
    run_runtimes({"a"},
                 [&](Runtime& runtime) { has_guard = runtime.has_guard(); });
    return has_guard;
  };
  EXPECT_FALSE(guard("0"));
  EXPECT_TRUE(guard("1"));
}

TEST(Runtime, PretendsHostsByTheEnvironment) {
  const test::ScopedVariable variable("SHEAF_HOSTS", "2");
  run_runtimes({"a", "a", "a", "a"}, [](Runtime& runtime) {
    EXPECT_EQ(runtime.host_map().hosts,
              (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  });
}

TEST(Runtime, MorePretendedHostsThanRanksAreRefused) {
  const test::ScopedVariable variable("SHEAF_HOSTS", "2");
  expect_throws<UsageError>([] { run_runtimes({"a"}, [](Runtime&) {}); },
                            {"SHEAF_HOSTS='2'", "number of ranks, 1"});
}

TEST(Runtime, DeclaredTiersMustFitTheRanks) {
  topo::Options options;
  options.dims = topo::Dims{{2, 2}};
  expect_throws<UsageError>(
      [&] {
        run_runtimes(
            {"a"}, [](Runtime&) {}, options);
      },
      {"4", "1"});
}

TEST(Runtime, AnIdIsUsedFromTakeToRelease) {
  run_runtimes({"a"}, [](Runtime& runtime) {
    EXPECT_TRUE(runtime.used_ids().none());
    runtime.take_id(0);
    runtime.take_id(kMaxGroups - 1);
    EXPECT_TRUE(runtime.used_ids()[0]);
    EXPECT_TRUE(runtime.used_ids()[kMaxGroups - 1]);
    EXPECT_EQ(runtime.used_ids().count(), 2u);
    runtime.release_id(0);
    EXPECT_EQ(runtime.used_ids().count(), 1u);
  });
}

TEST(Runtime, LatestOperationsOfTheHostAreKnown) {
  run_runtimes({"a", "a"}, [](Runtime& runtime) {
    EXPECT_EQ(&runtime.my_end(), &runtime.end_of(runtime.rank()));
    runtime.memory()
        .header(runtime.host_map().local)
        .flight.begin(
            {.operation = Operation::kBarrier,
             .sequence = static_cast<std::uint32_t>(runtime.rank()) + 1},
            0);
    const int other = 1 - runtime.rank();
    while (!runtime.latest(other)) std::this_thread::yield();
    EXPECT_EQ(runtime.latest(other)->call.sequence,
              static_cast<std::uint32_t>(other) + 1);
  });
}

TEST(Runtime, FinalizeIsDoneOnce) {
  run_runtimes({"a"}, [](Runtime& runtime) {
    EXPECT_FALSE(runtime.is_finalized());
    runtime.finalize();
    EXPECT_TRUE(runtime.is_finalized());
    runtime.finalize();
    EXPECT_FALSE(runtime.has_failed());
  });
}

}  // namespace
}  // namespace sheaf::comm

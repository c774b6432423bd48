#include "sheaf/comm/group/make_group.hpp"

#include <gtest/gtest.h>

#include "sheaf/comm/group/collectives.hpp"
#include "tests/comm/process/runtimes.hpp"

namespace sheaf::comm {
namespace {

// Runs `body` with a shared runtime on each rank, as make_world() needs it.
void run_shared(const std::vector<std::string>& hosts,
                const std::function<void(std::shared_ptr<Runtime>)>& body) {
  test::run_runtimes(hosts, [&](Runtime& runtime) {
    body(std::shared_ptr<Runtime>(&runtime, [](Runtime*) {}));
  });
}

TEST(MakeWorld, IsAGroupOfAllRanks) {
  run_shared({"a", "b", "a"}, [](std::shared_ptr<Runtime> runtime) {
    const Group world = make_world(runtime);
    EXPECT_EQ(world.rank(), runtime->rank());
    EXPECT_EQ(world.size(), 3);
    EXPECT_EQ(world.id(), 0);
    EXPECT_EQ(world.host_count(), 2);
    EXPECT_EQ(world.local_size(), runtime->rank() == 1 ? 1 : 2);
    EXPECT_TRUE(runtime->used_ids()[0]);
    std::vector<int> data{1 << runtime->rank()};
    all_reduce(world, data).wait();
    EXPECT_EQ(data[0], 7);
  });
}

TEST(GroupDraft, TheFirstMemberOfAHostAllocatesItsRegion) {
  run_shared({"a", "a", "b"}, [](std::shared_ptr<Runtime> runtime) {
    const std::size_t before = runtime->memory().heap().bytes_in_use();
    // In this order, member 0 is rank 2 and member 1 is rank 1.
    const GroupDraft draft(runtime, runtime->host_map(), {2, 1, 0},
                           runtime->rank());
    const bool is_first = runtime->rank() != 0;
    EXPECT_EQ(draft.region_offset() != 0, is_first);
    EXPECT_EQ(draft.first_of_host(), runtime->rank() == 2 ? 0 : 1);
    EXPECT_EQ(runtime->memory().heap().bytes_in_use() > before, is_first);
  });
}

TEST(GroupDraft, OfOthersAllocatesNothing) {
  run_shared({"a", "a"}, [](std::shared_ptr<Runtime> runtime) {
    if (runtime->rank() == 0) return;
    const GroupDraft draft(runtime, runtime->host_map(), {0}, 1);
    EXPECT_EQ(draft.region_offset(), 0u);
  });
}

// The region of an ended group is freed when the next one is made.
TEST(GroupDraft, CollectsTheRegionsOfEndedGroups) {
  run_shared({"a"}, [](std::shared_ptr<Runtime> runtime) {
    const Group world = make_world(runtime);
    { const Group group = world.split(0); }
    const std::size_t before = runtime->memory().heap().bytes_in_use();
    for (int i = 0; i < 5; ++i) {
      const Group group = world.split(0);
      EXPECT_EQ(runtime->memory().heap().bytes_in_use(), before);
    }
  });
}

}  // namespace
}  // namespace sheaf::comm

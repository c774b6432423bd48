#include "sheaf/comm/choice/tuner.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/ddl/dump_folder.hpp"

namespace sheaf::comm {
namespace {

using nlohmann::json;

class TunerTest : public testing::Test {
 protected:
  std::filesystem::path file() const { return folder_.file("tuned.json"); }
  json tuned() const { return json::parse(folder_.text("tuned.json")); }

  test::DumpFolder folder_;
  test::ScopedVariable variable_{"SHEAF_TUNED_FILE", file().string()};
};

std::vector<std::string> texts(const std::vector<Choice>& choices,
                               const HostMap& host_map) {
  std::vector<std::string> texts;
  for (const Choice& choice : choices)
    texts.push_back(text_of(choice, host_map));
  return texts;
}

HostMap layout_of(const std::vector<std::string>& hosts) {
  return make_host_map(hosts, 0);
}

const Choice kSmall{DataPath::kSmall, {}};

Choice over(std::vector<int> hosts) {
  Choice choice;
  choice.plan.outer_dims = std::move(hosts);
  choice.plan.tier_algorithms.assign(choice.plan.outer_dims.size(),
                                     TierAlgorithm::kRing);
  choice.plan.segment_bytes = std::size_t{1} << 20;
  return choice;
}

TEST(Candidates, OfOneHost) {
  const HostMap host_map = layout_of({"a", "a"});
  EXPECT_EQ(texts(candidates(host_map, kSmall, 8192), host_map),
            (std::vector<std::string>{"small", "shared segment=64K",
                                      "flat tiers=ring:2 segment=1M"}));
  const auto large =
      texts(candidates(host_map, over({1}), std::size_t{1} << 26), host_map);
  EXPECT_EQ(large.front(), "shared segment=64K");
  EXPECT_EQ(large.size(), 6u);  // 64K .. 1M, and the ring
}

TEST(Candidates, OfSeveralHosts) {
  const HostMap host_map = layout_of({"a", "a", "b", "b", "c", "c"});
  const auto small = texts(candidates(host_map, over({3}), 8192), host_map);
  // Three algorithms through two lanes or one, and the flat ring.
  EXPECT_EQ(small.size(), 7u);
  EXPECT_EQ(small[0], "lanes=2 tiers=ring:3 segment=2M");
  EXPECT_EQ(small[2], "lanes=2 tiers=tree:3 segment=2M");
  EXPECT_EQ(small[5], "lanes=1 tiers=tree:3 segment=1M");
  // No trees, but two sizes of segments.
  const auto large =
      texts(candidates(host_map, over({3}), std::size_t{1} << 26), host_map);
  EXPECT_EQ(large.size(), 9u);
}

TEST(Candidates, CombineDeclaredTiers) {
  const HostMap host_map =
      layout_of({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"});
  const auto found =
      texts(candidates(host_map, over({4, 3}), std::size_t{4} << 10), host_map);
  EXPECT_NE(std::find(found.begin(), found.end(),
                      "lanes=1 tiers=halving:4,tree:3 segment=1M"),
            found.end());
  // 2 x 3 algorithms and the flat ring
  EXPECT_EQ(found.size(), 7u);
}

TEST(Candidates, HaveNoRepetitions) {
  for (const auto& hosts :
       {std::vector<std::string>{"a", "a", "a"}, {"a", "b"}, {"a", "a", "b"}})
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 28; bytes *= 2) {
      const HostMap host_map = layout_of(hosts);
      const auto found = texts(
          candidates(host_map, over({host_map.host_count()}), bytes), host_map);
      EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
    }
}

// Every rank reduces the same sequence while the group explores.
void explore(const std::vector<std::string>& hosts, std::size_t count,
             int calls) {
  run_threads(
      hosts,
      [&](const Group& group) {
        std::vector<float> data(count);
        for (int i = 0; i < calls; ++i) {
          std::fill(data.begin(), data.end(),
                    static_cast<float>(group.rank() + 1));
          all_reduce(group, data).wait();
          const int size = group.size();
          ASSERT_EQ(data.front(), static_cast<float>(size * (size + 1) / 2));
          ASSERT_EQ(data.back(), data.front());
        }
        EXPECT_EQ(Tuner::of(group.core()).is_measuring(), false);
      },
      topo::parse_options("-mode p"));
}

int trials(const std::vector<std::string>& hosts, std::size_t bytes) {
  const HostMap host_map = layout_of(hosts);
  const auto usual = host_map.host_count() == 1 && bytes <= 8192
                         ? kSmall
                         : over({host_map.host_count()});
  return kTuningRounds *
         static_cast<int>(candidates(host_map, usual, bytes).size());
}

TEST_F(TunerTest, ResultsStayRightAndTheBestIsRemembered) {
  for (const auto& hosts : {std::vector<std::string>{"a", "a"},
                            {"a", "b"},
                            {"a", "a", "b", "b"},
                            {"a", "a", "b"}}) {
    std::filesystem::remove(file());
    explore(hosts, 1024, trials(hosts, 4096) + 2);
    ASSERT_EQ(tuned()["topologies"].size(), 1u);
    const json entry = *tuned()["topologies"].begin();
    EXPECT_TRUE(entry["f32"].contains("4K")) << tuned();
    EXPECT_GT(entry["f32"]["4K"]["time_us"], 0.0);
  }
}

TEST_F(TunerTest, NothingIsRememberedBeforeTheLastTrial) {
  explore({"a", "b"}, 1024, 3);
  EXPECT_FALSE(std::filesystem::exists(file()));
}

// The first choice of a new run is the one that the file names.
TEST_F(TunerTest, LaterRunsBeginWithTheBest) {
  const std::vector<std::string> hosts{"a", "b", "c"};
  explore(hosts, 1024, trials(hosts, 4096));
  json changed = tuned();
  json& entry = *changed["topologies"].begin();
  entry["f32"]["4K"]["choice"] = "lanes=1 tiers=tree:3 segment=1M";
  std::ofstream(file()) << changed;
  std::mutex mutex;
  std::set<std::string> taken;
  run_threads(
      hosts,
      [&](const Group& group) {
        GroupCore& core = group.core();
        for (int i = 0; i < 3; ++i) {
          const Choice choice =
              Tuner::of(core).choose(DType::kF32, 4096, over({3}));
          EXPECT_FALSE(Tuner::of(core).is_measuring());
          const std::lock_guard lock(mutex);
          taken.insert(text_of(choice, core.host_map()));
        }
      },
      topo::parse_options("-mode p"));
  EXPECT_EQ(taken, std::set<std::string>{"lanes=1 tiers=tree:3 segment=1M"});
}

// By the time of the slowest rank, and by the best of the rounds.
TEST_F(TunerTest, AgreesOnTheLeastTimeOfTheSlowestRank) {
  run_threads(
      {"a", "b", "c"},
      [&](const Group& group) {
        GroupCore& core = group.core();
        const auto list = candidates(core.host_map(), over({3}), 1024);
        const auto count = static_cast<int>(list.size());
        for (int i = 0; i < kTuningRounds * count; ++i) {
          const Choice choice =
              Tuner::of(core).choose(DType::kF32, 1024, over({3}));
          ASSERT_TRUE(Tuner::of(core).is_measuring());
          EXPECT_EQ(text_of(choice, core.host_map()),
                    text_of(list[static_cast<std::size_t>(i % count)],
                            core.host_map()));
          // Candidate 0 is the fastest on two ranks, candidate 2 on all
          // together, in its second round.
          std::int64_t ns = 1000;
          if (i % count == 0) ns = group.rank() == 2 ? 5000 : 1;
          if (i == count + 2) ns = 500;
          Tuner::of(core).note(1024, ns);
        }
        const Choice best =
            Tuner::of(core).choose(DType::kF32, 1000, over({3}));
        EXPECT_FALSE(Tuner::of(core).is_measuring());
        EXPECT_EQ(text_of(best, core.host_map()),
                  text_of(list[2], core.host_map()));
        // Another type and another size are explored separately.
        Tuner::of(core).choose(DType::kF64, 1024, over({3}));
        EXPECT_TRUE(Tuner::of(core).is_measuring());
        Tuner::of(core).choose(DType::kF32, 1025, over({3}));
        EXPECT_TRUE(Tuner::of(core).is_measuring());
      },
      topo::parse_options("-mode p"));
}

TEST_F(TunerTest, CorruptFileIsWarnedOfAndReplaced) {
  std::ofstream(file()) << "{\"schema\": \"sheaf.tu";
  testing::internal::CaptureStderr();
  explore({"a", "b"}, 256, trials({"a", "b"}, 1024));
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("tuning starts over"), std::string::npos) << text;
  EXPECT_EQ(tuned()["schema"], "sheaf.tuned.1");
}

TEST_F(TunerTest, ReproducibleIsNotExplored) {
  run_threads(
      {"a", "a"},
      [](const Group& group) {
        std::vector<float> data(1024, 1);
        for (int i = 0; i < 30; ++i) all_reduce(group, data).wait();
      },
      topo::parse_options("-mode p -reproducible"));
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST(TunedFile, RemembersByTopologyTypeAndSize) {
  const test::DumpFolder folder;
  const auto path = folder.file("deep/er/tuned.json");
  const TunedKey key{"4x2", DType::kF32, 1024};
  EXPECT_EQ(recall(path, key), std::nullopt);
  remember(path, key, "small", 1.5);
  remember(path, {"4x2", DType::kF32, 2048}, "ring", 2);
  remember(path, {"4x2", DType::kF64, 1024}, "tree", 2);
  remember(path, {"2x2", DType::kF32, 1024}, "flat", 2);
  EXPECT_EQ(recall(path, key), "small");
  remember(path, key, "halving", 1);
  EXPECT_EQ(recall(path, key), "halving");
  EXPECT_EQ(recall(path, {"4x2", DType::kF32, 2048}), "ring");
  EXPECT_EQ(recall(path, {"4x2", DType::kF64, 1024}), "tree");
  EXPECT_EQ(recall(path, {"2x2", DType::kF32, 1024}), "flat");
  EXPECT_EQ(recall(path, {"8x2", DType::kF32, 1024}), std::nullopt);
}

TEST(TunedFile, LiesWhereTheEnvironmentSays) {
  {
    const test::ScopedVariable file("SHEAF_TUNED_FILE", "/x/y.json");
    EXPECT_EQ(tuned_path(), "/x/y.json");
  }
  const test::ScopedVariable cache("XDG_CACHE_HOME", "/c");
  EXPECT_EQ(tuned_path(), "/c/sheaf/tuned.json");
  const test::ScopedVariable none("XDG_CACHE_HOME", "");
  const test::ScopedVariable home("HOME", "/h");
  EXPECT_EQ(tuned_path(), "/h/.cache/sheaf/tuned.json");
}

TEST(TunedFile, NoPlaceIsNoFailure) {
  testing::internal::CaptureStderr();
  remember({}, {"a", DType::kF32, 8}, "small", 1);
  remember("/proc/none/tuned.json", {"a", DType::kF32, 8}, "small", 1);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("cannot save"),
            std::string::npos);
  EXPECT_EQ(recall({}, {"a", DType::kF32, 8}), std::nullopt);
}

}  // namespace
}  // namespace sheaf::comm

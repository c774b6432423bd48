#include "sheaf/comm/choice/tuner.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>

#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/choice/choices.hpp"
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
  const HostMap host_map = choices::host_map_of(hosts);
  const auto usual = host_map.host_count() == 1 && bytes <= 8192
                         ? choices::kSmall
                         : choices::over({host_map.host_count()});
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

}  // namespace
}  // namespace sheaf::comm

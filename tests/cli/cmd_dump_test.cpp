#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sheaf/comm/ddl/checked_all_reduce.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/cli/call_sheaf.hpp"
#include "tests/comm/ddl/dump_folder.hpp"

namespace sheaf::cli {
namespace {

// Three ranks on two hosts, with a wrong element on rank 1.
class DumpShow : public testing::Test {
 protected:
  void SetUp() override {
    comm::run_threads({"a", "a", "b"}, [](const comm::Group& group) {
      std::vector<float> data(5000, static_cast<float>(group.rank() + 1));
      const comm::Buffer buffer(data);
      EXPECT_THROW(comm::checked(group, {&buffer, 1}, {},
                                 [&] {
                                   comm::all_reduce(group, data).wait();
                                   if (group.rank() == 1) data[4321] = 99;
                                 }),
                   CheckError);
    });
  }
  std::string file(int rank) const {
    return folder_.file("sheaf.dump." + std::to_string(rank) + ".1").string();
  }

  test::DumpFolder folder_;
};

TEST_F(DumpShow, FindsTheOtherRanksBesideTheFile) {
  const CallOutcome shown = call_sheaf({"dump", "show", file(1)});
  EXPECT_EQ(shown.code, 0) << shown.err;
  for (const char* part :
       {"all_reduce #", "(f32 sum, 5000 elements)", "rank 1 of 3",
        "host a: ranks 0, 1", "host b: ranks 2", "1 of 5000 elements are wrong",
        "element 4321 on rank 1: 99 instead of 6", "Replay of all elements",
        "replay agrees with the reference, the output of rank 1 does not",
        "1 2 3"})
    EXPECT_TRUE(has(shown.out, part)) << part << " in\n" << shown.out;
}

TEST_F(DumpShow, OneFileAloneShowsTheNeighborhood) {
  std::filesystem::remove(file(0));
  const CallOutcome shown = call_sheaf({"dump", "show", file(1)});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, "around the largest error")) << shown.out;
  EXPECT_TRUE(has(shown.out, "4321")) << shown.out;
}

TEST_F(DumpShow, SeveralFilesAreTakenAsGiven) {
  const CallOutcome shown =
      call_sheaf({"dump", "show", file(2), file(0), file(1)});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_TRUE(has(shown.out, "Replay of all elements, from 3 dumps"));
  EXPECT_TRUE(has(shown.out, "the error is on rank 1")) << shown.out;
  const CallOutcome twice = call_sheaf({"dump", "show", file(2), file(2)});
  EXPECT_EQ(twice.code, 2);
  EXPECT_TRUE(has(twice.err, "given twice")) << twice.err;
}

TEST_F(DumpShow, PrintsJsonRows) {
  const CallOutcome shown = call_sheaf({"dump", "show", "--json", file(1)});
  EXPECT_EQ(shown.code, 0) << shown.err;
  std::istringstream lines(shown.out);
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(lines, line);)
    rows.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(rows.size(), 7u);  // call, 2 statistics, 3 comparisons, 1 element
  EXPECT_EQ(rows[0]["rank"], 1);
  EXPECT_EQ(rows[0]["wrong"], 1);
  EXPECT_EQ(rows[0]["worst_element"], 4321);
  EXPECT_EQ(rows[1]["of"], "input");
  EXPECT_EQ(rows[3]["agree"], false);
  EXPECT_EQ(rows[6]["element"], 4321);
  EXPECT_EQ(rows[6]["output"], 99.0);
}

TEST_F(DumpShow, DamagedFileNamesItself) {
  const std::string bytes = folder_.text("sheaf.dump.0.1");
  std::ofstream(file(0), std::ios::binary) << bytes.substr(0, 1000);
  const CallOutcome shown = call_sheaf({"dump", "show", file(0)});
  EXPECT_EQ(shown.code, 5);
  EXPECT_TRUE(has(shown.err, "sheaf.dump.0.1: at offset ")) << shown.err;
}

TEST(DumpCommand, WantsAFile) {
  EXPECT_EQ(call_sheaf({"dump"}).code, 2);
  EXPECT_EQ(call_sheaf({"dump", "show"}).code, 2);
  EXPECT_EQ(call_sheaf({"dump", "show", "/nonexistent"}).code, 5);
}

}  // namespace
}  // namespace sheaf::cli

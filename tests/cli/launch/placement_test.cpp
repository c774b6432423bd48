#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/topo/host_list.hpp"

namespace sheaf::cli {
namespace {

class PlacementTest : public testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("SLURM_JOB_ID");
    ::unsetenv("SLURM_NTASKS");
    std::string name =
        (std::filesystem::temp_directory_path() / "sheaf-place-XXXXXX");
    ASSERT_GE(::mkstemp(name.data()), 0);
    file_ = name;
  }
  void TearDown() override {
    std::filesystem::remove(file_);
    ::unsetenv("SLURM_JOB_ID");
    ::unsetenv("SLURM_NTASKS");
  }
  void write(const std::string& text) { std::ofstream(file_) << text; }

  std::string file_;
  LaunchOptions options_;
};

TEST_F(PlacementTest, OneRankHereUnlessMoreAreAskedFor) {
  EXPECT_EQ(place_ranks(options_).request.ranks, 1);
  options_.ranks = 7;
  const MpiRequest request = place_ranks(options_).request;
  EXPECT_EQ(request.ranks, 7);
  EXPECT_TRUE(request.is_local);
  EXPECT_EQ(request.cores, topo::detect_host().cores);
}

TEST_F(PlacementTest, ATopologyGivesTheNumber) {
  options_.topology = "4x3";
  EXPECT_EQ(place_ranks(options_).request.ranks, 12);
  options_.ranks = 16;
  EXPECT_THROW(place_ranks(options_), UsageError);
}

TEST_F(PlacementTest, HostsGiveTheNumber) {
  options_.hosts = "a:2,b:3";
  MpiRequest request = place_ranks(options_).request;
  EXPECT_EQ(request.ranks, 5);
  EXPECT_FALSE(request.is_local);
  options_.ranks = 6;
  EXPECT_THROW(place_ranks(options_), UsageError);
  options_.hosts = host_name() + ":6";
  EXPECT_TRUE(place_ranks(options_).request.is_local);
}

TEST_F(PlacementTest, HostFile) {
  write("a slots=2\nb:1\n");
  options_.hostfile = file_;
  const MpiRequest request = place_ranks(options_).request;
  EXPECT_EQ(request.hosts, (std::vector<topo::HostSlots>{{"a", 2}, {"b", 1}}));
  options_.hosts = "a";
  EXPECT_THROW(place_ranks(options_), UsageError);
}

TEST_F(PlacementTest, RankFileGivesHostsAndNumber) {
  write("rank 0=b slot=0\nrank 1=a slot=0\nrank 2=b slot=1\n");
  options_.rankfile = file_;
  const MpiRequest request = place_ranks(options_).request;
  EXPECT_EQ(request.ranks, 3);
  EXPECT_EQ(request.hosts, (std::vector<topo::HostSlots>{{"b", 2}, {"a", 1}}));
  options_.topology = "2x2";
  EXPECT_THROW(place_ranks(options_), UsageError);
}

TEST_F(PlacementTest, RelativeHostsNeedAList) {
  write("rank 0=+n1 slot=0\nrank 1=+n0 slot=0\n");
  options_.rankfile = file_;
  EXPECT_THROW(place_ranks(options_), UsageError);
  options_.hosts = "a,b";
  EXPECT_EQ(place_ranks(options_).request.hosts,
            (std::vector<topo::HostSlots>{{"a", 1}, {"b", 1}}));
}

TEST_F(PlacementTest, SlurmChoosesUnlessHostsAreGiven) {
  ::setenv("SLURM_JOB_ID", "17", 1);
  ::setenv("SLURM_NTASKS", "8", 1);
  MpiRequest request = place_ranks(options_).request;
  EXPECT_TRUE(request.has_scheduler);
  EXPECT_FALSE(request.is_local);
  EXPECT_EQ(request.ranks, 8);
  options_.hosts = "a:2";
  request = place_ranks(options_).request;
  EXPECT_FALSE(request.has_scheduler);
  EXPECT_EQ(request.ranks, 2);
}

}  // namespace
}  // namespace sheaf::cli

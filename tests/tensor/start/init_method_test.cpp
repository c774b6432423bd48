// Reads the meeting place from variables, URLs and options.

#include <gtest/gtest.h>

#include "tests/tensor/start/meeting.hpp"

namespace sheaf::tensor {
namespace {

using Values = LaunchVariables::Values;

std::string place_error(const ProcessGroupOptions& options) {
  return error_of<UsageError>([&] { find_meeting_place(options); });
}

TEST(InitMethod, ReadsTorchrunsVariables) {
  const LaunchVariables environment({{"RANK", "1"},
                                     {"WORLD_SIZE", "4"},
                                     {"MASTER_ADDR", "node7"},
                                     {"MASTER_PORT", "29501"},
                                     {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                     {"TORCHELASTIC_RESTART_COUNT", "2"}});
  const auto place = find_meeting_place({.group_name = "g"});
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.world_size, 4);
  EXPECT_EQ(text_of(place), "node7:29501");
  EXPECT_TRUE(place.has_server);
  EXPECT_EQ(place.prefix, "worker/attempt_2/g");
}

TEST(InitMethod, ReadsUrls) {
  const auto tcp = find_meeting_place(
      {.init_method = "tcp://10.0.0.1:4711?rank=2&world_size=3"});
  EXPECT_EQ(text_of(tcp), "10.0.0.1:4711");
  EXPECT_EQ(tcp.rank, 2);
  EXPECT_EQ(tcp.world_size, 3);
  EXPECT_FALSE(tcp.has_server);
  const auto six = find_meeting_place(
      {.init_method = "tcp://[::1]:80", .world_size = 2, .rank = 1});
  EXPECT_EQ(six.host, "::1");
  const auto file = find_meeting_place(
      {.init_method = "file:///tmp/x?rank=0", .world_size = 2});
  EXPECT_EQ(file.path, "/tmp/x");
  EXPECT_EQ(file.world_size, 2);
}

TEST(InitMethod, NamesTheVariableThatIsWrong) {
  const std::map<std::string, std::string> good{{"RANK", "0"},
                                                {"WORLD_SIZE", "2"},
                                                {"MASTER_ADDR", "localhost"},
                                                {"MASTER_PORT", "29500"}};
  for (const auto& [name, value] : good) {
    auto some = good;
    some.erase(name);
    const LaunchVariables environment(some);
    EXPECT_TRUE(has(place_error({}), concat("variable ", name)))
        << place_error({});
  }
  const auto with = [&](const char* name, const char* value) {
    auto all = good;
    all[name] = value;
    const LaunchVariables environment(all);
    return place_error({});
  };
  EXPECT_TRUE(has(with("MASTER_PORT", "abc"), "MASTER_PORT='abc'"));
  EXPECT_TRUE(has(with("MASTER_PORT", "70000"), "MASTER_PORT=70000"));
  EXPECT_TRUE(has(with("RANK", "-1"), "RANK='-1'"));
  EXPECT_TRUE(has(with("RANK", "2"), "RANK=2 but WORLD_SIZE=2"));
  EXPECT_TRUE(has(with("WORLD_SIZE", "0"), "WORLD_SIZE=0"));
}

TEST(InitMethod, GivenTwice) {
  const LaunchVariables environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_TRUE(has(place_error({.world_size = 1, .rank = 1}),
                  "RANK is 0, the option rank is 1"));
  EXPECT_EQ(place_error({.world_size = 1, .rank = 0}), "");
  EXPECT_TRUE(has(place_error({.init_method = "tcp://h:1?rank=0&world_size=3",
                               .world_size = 2}),
                  "world_size is given twice"));
}

TEST(InitMethod, NamesThePartOfTheUrlThatIsWrong) {
  const auto error = [](const std::string& method) {
    return place_error({.init_method = method, .world_size = 2, .rank = 0});
  };
  EXPECT_TRUE(has(error("tcp://host"), "the port is missing"));
  EXPECT_TRUE(has(error("tcp://:12"), "the host is missing"));
  EXPECT_TRUE(has(error("tcp://host:x1"), "port of tcp://host:x1='x1'"));
  EXPECT_TRUE(has(error("tcp://h:1?rnk=0"), "did you mean 'rank'"));
  EXPECT_TRUE(has(error("file://x/y"), "three slashes"));
  EXPECT_TRUE(has(error("file:///x/"), "is a folder"));
  EXPECT_TRUE(has(error("tpc://h:1"), "did you mean 'tcp'"));
  EXPECT_TRUE(has(error("localhost"), "is not a URL"));
  EXPECT_TRUE(
      has(place_error({.init_method = "tcp://h:1"}), "rank is missing"));
}

TEST(InitMethod, OneRankNeedsNoAddress) {
  const LaunchVariables environment({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  const auto place =
      find_meeting_place({.timeout = milliseconds(7), .group_name = "g"});
  EXPECT_EQ(place.world_size, 1);
  EXPECT_EQ(place.host, "");
  EXPECT_EQ(place.prefix, "g");
  EXPECT_EQ(place.timeout, milliseconds(7));
}

TEST(InitMethod, TheAgentServesOnlyIfItSaysSo) {
  Values values{{"RANK", "0"},
                {"WORLD_SIZE", "2"},
                {"MASTER_ADDR", "h"},
                {"MASTER_PORT", "65535"},
                {"TORCHELASTIC_USE_AGENT_STORE", "False"}};
  const LaunchVariables environment(values);
  const auto place = find_meeting_place({.init_method = "env://"});
  EXPECT_FALSE(place.has_server);
  EXPECT_EQ(place.prefix, "");
  EXPECT_EQ(place.port, 65535);
  EXPECT_EQ(place.rank_from, "RANK");
  EXPECT_EQ(place.host_from, "MASTER_ADDR");
  values["MASTER_PORT"] = "0";
  environment.set(values);
  EXPECT_EQ(place_error({}),
            "MASTER_PORT=0 is not a valid port; use 1 to 65535, such as 29500");
  values["MASTER_ADDR"] = "";
  environment.set(values);
  EXPECT_TRUE(has(place_error({}), "MASTER_ADDR, which is empty"));
}

TEST(InitMethod, QueriesAreKeysAndValues) {
  const auto error = [](const std::string& method) {
    return place_error({.init_method = method, .world_size = 2, .rank = 0});
  };
  EXPECT_EQ(error("tcp://h:1?&rank=0&"), "");
  EXPECT_EQ(error("tcp://h:1?rank"),
            "'rank' in tcp://h:1?rank is not key=value");
  EXPECT_TRUE(has(error("tcp://h:1?rank=x"), "rank of tcp://h:1?rank=x='x'"));
  EXPECT_TRUE(has(error("env://h"), "env:// takes no path or query"));
  EXPECT_TRUE(has(error("env://?rank=0"), "env:// takes no path or query"));
  EXPECT_TRUE(has(error("tcp://[::1]"), "the port is missing"));
  EXPECT_TRUE(has(error("tcp://h:"), "the port is missing"));
}

TEST(InitMethod, ReadsSlurmsVariables) {
  const LaunchVariables environment(LaunchVariables::slurm(1, 3));
  const auto place = find_meeting_place({.group_name = "g"});
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.world_size, 3);
  EXPECT_EQ(place.host, "node07");
  EXPECT_EQ(place.port, 10000 + 17 * 101 + 2);
  EXPECT_EQ(place.prefix, "slurm/17.2/g");
  EXPECT_EQ(place.rank_from, "SLURM_PROCID");
  EXPECT_EQ(place.host_from, "the first host of SLURM_STEP_NODELIST");
  EXPECT_EQ(place.host_hint, "set MASTER_ADDR");
  EXPECT_FALSE(place.has_server);
}

TEST(InitMethod, ATaskAloneInItsStepNeedsNoNodes) {
  Values values = LaunchVariables::slurm(0, 1);
  values.erase("SLURM_STEP_NODELIST");
  const LaunchVariables environment(values);
  EXPECT_EQ(find_meeting_place({}).world_size, 1);
}

TEST(InitMethod, AddressesOverrideSlurms) {
  Values values = LaunchVariables::slurm(0, 2);
  values["MASTER_ADDR"] = "other";
  values["MASTER_PORT"] = "4711";
  values["SLURM_HET_SIZE"] = "2";
  values["SLURMD_NODENAME"] = "node08";
  const LaunchVariables environment(values);
  EXPECT_EQ(text_of(find_meeting_place({})), "other:4711");
  values.erase("MASTER_PORT");
  environment.set(values);
  EXPECT_TRUE(has(place_error({}), "SLURM_HET_SIZE: a heterogeneous job"));
}

TEST(InitMethod, SlurmsHostsMustFit) {
  Values values = LaunchVariables::slurm(0, 2);
  values["SLURMD_NODENAME"] = "node08";
  const LaunchVariables environment(values);
  EXPECT_EQ(place_error({}),
            "task 0 runs on node08, which is not the first host of "
            "SLURM_STEP_NODELIST (node07); set MASTER_ADDR to the host of task "
            "0 in all tasks");
  values.erase("SLURM_STEP_NODELIST");
  environment.set(values);
  EXPECT_TRUE(has(place_error({}), "SLURM_STEP_NODELIST is not set"));
}

TEST(InitMethod, RanksOverrideSlurms) {
  Values values = LaunchVariables::slurm(1, 3);
  values["RANK"] = "0";
  values["WORLD_SIZE"] = "1";
  const LaunchVariables environment(values);
  EXPECT_EQ(find_meeting_place({}).rank_from, "RANK");
  environment.set(LaunchVariables::slurm(1, 3));
  EXPECT_EQ(find_meeting_place({.world_size = 1, .rank = 0}).rank_from,
            "the option rank");
}

TEST(InitMethod, PlacesHaveATextForMessages) {
  MeetingPlace place;
  place.host = "h";
  place.port = 12;
  EXPECT_EQ(text_of(place), "h:12");
  place.host = "fd00::7";
  EXPECT_EQ(text_of(place), "[fd00::7]:12");
  place.path = "/a/b";
  EXPECT_EQ(text_of(place), "/a/b");
}

}  // namespace
}  // namespace sheaf::tensor

#include "sheaf/topo/machine.hpp"

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

Machine example() {
  Machine machine;
  machine.name = "two hosts";
  machine.hosts = {{"a", 2, 20, 64'000'000'000}, {"b", 1, 8, 0}};
  machine.devices = {{"cuda:0", "cuda", "a", 16'000'000'000}};
  machine.shm = {0.25, 11.5};
  machine.network = {42, 0.125};
  machine.shm_memory_gbs = 33.3;
  machine.reduce_gbs = 7.1;
  machine.message_us = 0;
  machine.contention = {8, 100'000'000, 1.25};
  return machine;
}

void expect_refused(const std::string& json,
                    std::initializer_list<std::string> words) {
  expect_throws<UsageError>([&] { parse_machine(json, "m.json"); }, words);
}

TEST(Machine, AMessageTakesLatencyAndBytes) {
  EXPECT_DOUBLE_EQ(message_time_us({5, 2}, 4000), 7);  // 2 GB/s: 2000 B/us
  EXPECT_DOUBLE_EQ(message_time_us({5, 2}, 0), 5);
}

TEST(Machine, TextIsReadBackAsTheSame) {
  EXPECT_EQ(parse_machine(text_of(example()), "m"), example());
  EXPECT_EQ(parse_machine(text_of(Machine{}), "m"), Machine{});
}

TEST(Machine, CastsOfADeviceAreReadBack) {
  Machine machine = example();
  machine.devices[0].casts = {{"f32", "f16", 0.25, 1500},
                              {"f16", "f32", 0.5, 0}};
  EXPECT_EQ(parse_machine(text_of(machine), "m"), machine);
}

TEST(Machine, MissingKeysKeepTheirDefaults) {
  EXPECT_EQ(parse_machine("{}", "m"), Machine{});
  const Machine machine =
      parse_machine(R"({"links": {"network": {"bandwidth_gbs": 12}}})", "m");
  EXPECT_EQ(machine.network.bandwidth_gbs, 12);
  EXPECT_EQ(machine.network.latency_us, Machine{}.network.latency_us);
  EXPECT_EQ(machine.shm, Machine{}.shm);
}

TEST(Machine, UnknownKeysAreNamed) {
  expect_refused(R"({"nam": "x"})", {"m.json", "'nam'", "known", "name"});
  expect_refused(R"({"links": {"shm": {"latency": 1}}})",
                 {"m.json", "'links.shm.latency'", "latency_us"});
  expect_refused(R"({"hosts": [{}, {"core": 1}]})", {"'hosts[1].core'"});
  expect_refused(R"({"contention": {"rank": 1}})",
                 {"'contention.rank'", "ranks"});
}

TEST(Machine, WrongTypesAreNamed) {
  expect_refused("[]", {"m.json", "must be an object"});
  expect_refused("{", {"m.json:1", "invalid JSON"});
  expect_refused("", {"m.json:1", "invalid JSON"});
  expect_refused(std::string(1 << 20, '['), {"m.json", "nested deeper"});
  expect_refused(R"({"name": "a", "name": "b"})", {"'name' is given twice"});
  expect_refused("{\"name\": \"\xff\"}", {"m.json:1", "invalid JSON"});
  expect_refused(R"({"name": 3})", {"'name'", "string"});
  expect_refused(R"({"reduce_gbs": "6"})", {"'reduce_gbs'", "number", "\"6\""});
  expect_refused(R"({"hosts": {}})", {"'hosts'", "list"});
  expect_refused(R"({"hosts": [1]})", {"'hosts[0]'", "object"});
  expect_refused(R"({"links": 1})", {"'links'", "object"});
  expect_refused(R"({"hosts": [{"cores": 1.5}]})", {"'hosts[0].cores'"});
}

TEST(Machine, ValuesOutOfRangeAreNamed) {
  expect_refused(R"({"message_us": -1})", {"'message_us'", ">= 0", "-1"});
  expect_refused(R"({"reduce_gbs": 0})", {"'reduce_gbs'", "> 0"});
  expect_refused(R"({"links": {"network": {"bandwidth_gbs": -2}}})",
                 {"'links.network.bandwidth_gbs'", "-2"});
  expect_refused(R"({"hosts": [{"sockets": 0}]})", {"'hosts[0].sockets'"});
  expect_refused(R"({"hosts": [{"cores": 9999999999}]})", {"'hosts[0].cores'"});
  expect_refused(R"({"hosts": [{"memory_bytes": 18446744073709551615}]})",
                 {"'hosts[0].memory_bytes'"});
}

class MachineFile : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directory(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  int files() const {
    int count = 0;
    for (const auto& item : std::filesystem::directory_iterator(folder_))
      count += item.is_regular_file();
    return count;
  }

  const std::string folder_ =
      testing::TempDir() + "sheaf_machine_test." + std::to_string(getpid());
  const std::string path_ = folder_ + "/machine.json";
};

TEST_F(MachineFile, IsSavedAndLoaded) {
  save_machine(Machine{}, path_);
  save_machine(example(), path_);
  EXPECT_EQ(load_machine(path_), example());
  EXPECT_EQ(files(), 1) << "a temporary file was left behind";
}

TEST_F(MachineFile, WhatCannotBeReadIsNotWritten) {
  save_machine(example(), path_);
  Machine broken = example();
  broken.network.bandwidth_gbs = std::nan("");
  expect_throws<UsageError>([&] { save_machine(broken, path_); },
                            {path_, "'links.network.bandwidth_gbs'"});
  EXPECT_EQ(load_machine(path_), example());
}

TEST_F(MachineFile, ErrorsNameTheFile) {
  expect_throws<IoError>([&] { load_machine(path_); }, {path_});
  expect_throws<IoError>([&] { load_machine(folder_); }, {folder_});
  const std::string nowhere = folder_ + "/none/machine.json";
  expect_throws<IoError>([&] { save_machine(example(), nowhere); }, {nowhere});
  std::filesystem::create_directory(path_);
  expect_throws<IoError>([&] { save_machine(example(), path_); }, {path_});
  EXPECT_EQ(files(), 0) << "a temporary file was left behind";
}

}  // namespace
}  // namespace sheaf::topo

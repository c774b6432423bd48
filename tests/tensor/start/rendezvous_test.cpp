// The rendezvous and its errors. Ranks are threads.

#include "sheaf/tensor/start/rendezvous.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "tests/tensor/start/agent.hpp"
#include "tests/tensor/start/meeting.hpp"

namespace sheaf::tensor {
namespace {

TEST(Rendezvous, EveryRankReadsAllCardsOverTcp) {
  const auto port = free_port();
  for (const auto& result :
       hold({at_port(port, 0, 3), at_port(port, 1, 3), at_port(port, 2, 3)},
            kLong))
    EXPECT_EQ(result, "card 0;card 1;card 2;");
}

TEST(Rendezvous, AFileIsRemovedAtTheEnd) {
  const TemporaryFolder folder;
  for (int i = 0; i < 2; ++i) {
    for (const auto& result :
         hold({at_file(folder, 0, 2), at_file(folder, 1, 2)}, kLong))
      EXPECT_EQ(result, "card 0;card 1;");
    EXPECT_TRUE(folder.names().empty());
  }
}

TEST(Rendezvous, NamesTheRanksThatAreMissing) {
  const auto port = free_port();
  const auto results = hold({at_port(port, 0, 4), at_port(port, 2, 4)}, kShort);
  EXPECT_TRUE(has(results[0], "ranks 1, 3 of 4")) << results[0];
  EXPECT_TRUE(has(results[0], "present: 0, 2")) << results[0];
  const TemporaryFolder folder;
  const auto alone = hold({at_file(folder, 0, 2)}, kShort);
  EXPECT_TRUE(has(alone[0], "ranks 1 of 2")) << alone[0];
  EXPECT_TRUE(folder.names().empty());
}

TEST(Rendezvous, TwoProcessesWithOneRank) {
  const auto port = free_port();
  const auto results = hold(
      {at_port(port, 0, 3), at_port(port, 1, 3), at_port(port, 1, 3)}, kLong);
  for (const auto& result : results)
    EXPECT_TRUE(has(result, "two processes claim to be rank 1")) << result;
}

TEST(Rendezvous, WorldSizesThatDiffer) {
  const auto port = free_port();
  const auto results = hold({at_port(port, 0, 2), at_port(port, 1, 3)}, kLong);
  for (const auto& result : results)
    EXPECT_TRUE(has(result, "world sizes differ")) << result;
}

// In torchrun's store every program can write.
class SharedStore : public testing::Test {
 protected:
  // Rank 0's error after a stranger has changed a value.
  std::string error_with(const std::string& key, const std::string& value) {
    agent_.store().set(concat("sheaf//", key),
                       std::vector<std::uint8_t>(value.begin(), value.end()));
    return hold({at_agent(port_, 0, 2)}, kShort)[0];
  }

  const std::uint16_t port_ = free_port();
  Agent agent_{port_};
};

TEST_F(SharedStore, EveryRankReadsAllCards) {
  for (const auto& result : hold({at_agent(port_, 0, 3), at_agent(port_, 1, 3),
                                  at_agent(port_, 2, 3)},
                                 kLong))
    EXPECT_EQ(result, "card 0;card 1;card 2;");
}

TEST_F(SharedStore, ACardOfAStrangerIsRefused) {
  EXPECT_TRUE(has(error_with("card/1", "2 host boot space 1 1\nsheaf-tcp-2"),
                  "card/1 in the store at 127.0.0.1"));
}

TEST_F(SharedStore, AnErrorOfAStrangerIsNotTrusted) {
  const std::string error = error_with("error", "your secret is wrong");
  EXPECT_TRUE(has(error, "was not written by a rank of this start")) << error;
  EXPECT_FALSE(has(error, "your secret")) << error;
}

TEST_F(SharedStore, AnotherJobOrSecretIsNamed) {
  MeetingPlace other = at_agent(port_, 1, 2);
  other.job = "another";
  const auto results = hold({at_agent(port_, 0, 2), other}, kShort);
  EXPECT_TRUE(has(results[1], "different secrets or jobs")) << results[1];
}

// The keys of programs with different prefixes are separate.
TEST(Rendezvous, GroupNamesSeparatePrograms) {
  const auto port = free_port();
  const Agent agent(port);
  std::vector<MeetingPlace> places;
  for (const char* name : {"one", "two"})
    for (const int rank : {0, 1}) {
      places.push_back(at_agent(port, rank, 2));
      places.back().prefix = name;
    }
  for (const auto& result : hold(places, kLong))
    EXPECT_EQ(result, "card 0;card 1;");
}

TEST(Rendezvous, AnySharedStoreServes) {
  struct MapStore : KeyStore {
    std::map<std::string, std::string> values;
    void set(const std::string& key, const std::string& value) override {
      values[key] = value;
    }
    std::string get(const std::string& key) override { return values.at(key); }
    bool has(const std::string& key) override { return values.count(key); }
    std::int64_t add(const std::string& key, std::int64_t value) override {
      return counts[key] += value;
    }
    std::map<std::string, std::int64_t> counts;
  } store;
  MeetingPlace place;
  place.prefix = "p";
  place.path = "memory";  // so that rank 0 serves no other rank
  const auto deadline = steady_clock::now() + kLong;
  EXPECT_EQ(meet(store, place, deadline, "two\nlines").cards,
            std::vector<std::string>{"two\nlines"});
  EXPECT_EQ(store.counts.at("sheaf/p/came"), 1);
  EXPECT_TRUE(store.has("sheaf/p/card/0"));
  // The same rank again: this process is alive.
  expect_throws<UsageError>([&] { meet(store, place, deadline, ""); },
                            {"two processes claim to be rank 0",
                             concat("process ", getpid(), " on ")});
  EXPECT_TRUE(store.has("sheaf/p/error"));
}

}  // namespace
}  // namespace sheaf::tensor

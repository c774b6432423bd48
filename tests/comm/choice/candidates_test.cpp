#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sheaf/comm/choice/select.hpp"
#include "sheaf/comm/choice/tuner.hpp"
#include "tests/comm/choice/choices.hpp"

namespace sheaf::comm {
namespace {

using choices::host_map_of;
using choices::kSmall;
using choices::over;

std::vector<std::string> texts(const std::vector<Choice>& choices,
                               const HostMap& host_map) {
  std::vector<std::string> texts;
  for (const Choice& choice : choices)
    texts.push_back(text_of(choice, host_map));
  return texts;
}

TEST(Candidates, OfOneHost) {
  const HostMap host_map = host_map_of({"a", "a"});
  EXPECT_EQ(texts(candidates(host_map, kSmall, 8192), host_map),
            (std::vector<std::string>{"small", "shared segment=64K",
                                      "flat tiers=ring:2 segment=1M"}));
  const auto large =
      texts(candidates(host_map, over({1}), std::size_t{1} << 26), host_map);
  EXPECT_EQ(large.front(), "shared segment=64K");
  EXPECT_EQ(large.size(), 6u);  // 64K .. 1M, and the ring
}

TEST(Candidates, OfSeveralHosts) {
  const HostMap host_map = host_map_of({"a", "a", "b", "b", "c", "c"});
  const auto small = texts(candidates(host_map, over({3}), 8192), host_map);
  // Three algorithms through two lanes or one, and the flat ring.
  EXPECT_EQ(small.size(), 7u);
  EXPECT_EQ(small[0], "lanes=2 tiers=ring:3 segment=2M");
  EXPECT_EQ(small[2], "lanes=2 tiers=tree:3 segment=2M");
  EXPECT_EQ(small[5], "lanes=1 tiers=tree:3 segment=1M");
  // No trees, but two sizes of pieces.
  const auto large =
      texts(candidates(host_map, over({3}), std::size_t{1} << 26), host_map);
  EXPECT_EQ(large.size(), 9u);
}

TEST(Candidates, CombineDeclaredTiers) {
  const HostMap host_map =
      host_map_of({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"});
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
      const HostMap host_map = host_map_of(hosts);
      const auto found = texts(
          candidates(host_map, over({host_map.host_count()}), bytes), host_map);
      EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
    }
}

}  // namespace
}  // namespace sheaf::comm

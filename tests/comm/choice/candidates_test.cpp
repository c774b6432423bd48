#include "sheaf/comm/choice/candidates.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sheaf/comm/choice/choice_tiers.hpp"
#include "tests/comm/choice/choices.hpp"

namespace sheaf::comm {
namespace {

using choices::kSmall;
using choices::layout_of;
using choices::over;

std::vector<std::string> texts(const std::vector<Choice>& choices,
                               const Layout& layout) {
  std::vector<std::string> texts;
  for (const Choice& choice : choices) texts.push_back(text_of(choice, layout));
  return texts;
}

TEST(Candidates, OfOneHost) {
  const Layout layout = layout_of({"a", "a"});
  EXPECT_EQ(texts(candidates(layout, kSmall, 8192), layout),
            (std::vector<std::string>{"small", "shared piece=64K",
                                      "flat tiers=ring:2 piece=1M"}));
  const auto large =
      texts(candidates(layout, over({1}), std::size_t{1} << 26), layout);
  EXPECT_EQ(large.front(), "shared piece=64K");
  EXPECT_EQ(large.size(), 6u);  // 64K .. 1M, and the ring
}

TEST(Candidates, OfSeveralHosts) {
  const Layout layout = layout_of({"a", "a", "b", "b", "c", "c"});
  const auto small = texts(candidates(layout, over({3}), 8192), layout);
  // Three algorithms through two lanes or one, and the flat ring.
  EXPECT_EQ(small.size(), 7u);
  EXPECT_EQ(small[0], "lanes=2 tiers=ring:3 piece=2M");
  EXPECT_EQ(small[2], "lanes=2 tiers=tree:3 piece=2M");
  EXPECT_EQ(small[5], "lanes=1 tiers=tree:3 piece=1M");
  // No trees, but two sizes of pieces.
  const auto large =
      texts(candidates(layout, over({3}), std::size_t{1} << 26), layout);
  EXPECT_EQ(large.size(), 9u);
}

TEST(Candidates, CombineDeclaredTiers) {
  const Layout layout =
      layout_of({"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"});
  const auto found =
      texts(candidates(layout, over({4, 3}), std::size_t{4} << 10), layout);
  EXPECT_NE(std::find(found.begin(), found.end(),
                      "lanes=1 tiers=halving:4,tree:3 piece=1M"),
            found.end());
  // 2 x 3 algorithms and the flat ring
  EXPECT_EQ(found.size(), 7u);
}

TEST(Candidates, HaveNoRepetitions) {
  for (const auto& hosts :
       {std::vector<std::string>{"a", "a", "a"}, {"a", "b"}, {"a", "a", "b"}})
    for (std::size_t bytes = 1; bytes <= std::size_t{1} << 28; bytes *= 2) {
      const Layout layout = layout_of(hosts);
      const auto found =
          texts(candidates(layout, over({layout.host_count()}), bytes), layout);
      EXPECT_EQ(std::set(found.begin(), found.end()).size(), found.size());
    }
}

}  // namespace
}  // namespace sheaf::comm

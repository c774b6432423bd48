#include "sheaf/comm/transport/tags.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sheaf::comm {
namespace {

constexpr TagKind kKinds[] = {TagKind::kData,      TagKind::kGuard,
                              TagKind::kLetter,    TagKind::kEnclosure,
                              TagKind::kBootstrap, TagKind::kEnd};
constexpr int kLastGroup = (1 << 10) - 1;

TEST(Tags, DifferByKindGroupAndPlace) {
  std::set<Tag> tags;
  for (const TagKind kind : kKinds)
    for (const int group : {0, 1, 512, kLastGroup})
      for (const Tag place : {Tag{0}, Tag{1}, Tag{1} << 14, kPlaceMask})
        tags.insert(make_tag(kind, group, place));
  EXPECT_EQ(tags.size(), std::size(kKinds) * 4 * 4);
  EXPECT_LT(*tags.rbegin(), Tag{1} << 28);  // what every MPI supports
}

TEST(Tags, PlacesBeginAgainAfterTheLast) {
  EXPECT_EQ(make_tag(TagKind::kGuard, 3, kPlaceMask + 1),
            make_tag(TagKind::kGuard, 3, 0));
  EXPECT_EQ(make_tag(TagKind::kGuard, 3, kPlaceMask + 8),
            make_tag(TagKind::kGuard, 3, 7));
}

}  // namespace
}  // namespace sheaf::comm

#include "sheaf/comm/transport/transport.hpp"

#include <gtest/gtest.h>

#include <set>

namespace sheaf::comm {
namespace {

constexpr TagKind kKinds[] = {TagKind::kData,      TagKind::kGuard,
                              TagKind::kLetter,    TagKind::kEnclosure,
                              TagKind::kBootstrap, TagKind::kEnd};
constexpr int kLastGroup = (1 << 10) - 1;

TEST(Tags, DifferByKindGroupAndPosition) {
  std::set<Tag> tags;
  for (const TagKind kind : kKinds)
    for (const int group : {0, 1, 512, kLastGroup})
      for (const Tag position : {Tag{0}, Tag{1}, Tag{1} << 14, kPositionMask})
        tags.insert(make_tag(kind, group, position));
  EXPECT_EQ(tags.size(), std::size(kKinds) * 4 * 4);
  EXPECT_LT(*tags.rbegin(), Tag{1} << 28);  // what every MPI supports
}

TEST(Tags, PositionsBeginAgainAfterTheLast) {
  EXPECT_EQ(make_tag(TagKind::kGuard, 3, kPositionMask + 1),
            make_tag(TagKind::kGuard, 3, 0));
  EXPECT_EQ(make_tag(TagKind::kGuard, 3, kPositionMask + 8),
            make_tag(TagKind::kGuard, 3, 7));
}

TEST(Request, IsNullUntilItHasAHandle) {
  Request request;
  EXPECT_FALSE(request);
  request = Request(7);
  EXPECT_TRUE(request);
  EXPECT_EQ(request.handle(), 7u);
  request.clear();
  EXPECT_FALSE(request);
}

TEST(Request, MovedFromIsNull) {
  Request first(7);
  const Request second(std::move(first));
  EXPECT_FALSE(first);  // NOLINT: defined for requests
  EXPECT_EQ(second.handle(), 7u);
}

}  // namespace
}  // namespace sheaf::comm

#include <algorithm>

#include "sheaf/topo/rankfile.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

const std::vector<HostShape> kHosts{{"a", {4, 4}}, {"b", {2}}};

std::vector<Diagnostic> lint_text(std::string_view text,
                                  const RankFileContext& context) {
  std::vector<Diagnostic> problems;
  const RankFile file = parse_rankfile(text, "ranks", problems);
  const auto found = lint(file, context);
  problems.insert(problems.end(), found.begin(), found.end());
  return problems;
}

// Expects exactly one problem, with this kind, line and words.
void expect_one(const std::vector<Diagnostic>& problems, RankFault fault,
                int line, std::initializer_list<std::string> words) {
  ASSERT_EQ(problems.size(), 1u) << text_of(problems);
  EXPECT_EQ(problems[0].fault, fault);
  EXPECT_EQ(problems[0].line, line);
  const std::string& text = problems[0].text;
  EXPECT_TRUE(text.starts_with("ranks:" + std::to_string(line) + ": ")) << text;
  for (const std::string& word : words)
    EXPECT_NE(text.find(word), std::string::npos) << word << " in " << text;
}

TEST(LintRankFile, AGoodFileHasNoProblems) {
  const auto problems = lint_text(
      "rank 0=a slot=0-3\nrank 1=a slot=1:0-3\n"
      "rank 2=+n1 slot=0\nrank 3=b slot=1\n",
      {kHosts, 4, parse_dims("2x2")});
  EXPECT_TRUE(problems.empty()) << text_of(problems);
}

TEST(LintRankFile, WithoutContextOnlyTheFileItselfCounts) {
  EXPECT_TRUE(lint_text("rank 1=x slot=90\nrank 0=y slot=7:1\n", {}).empty());
}

TEST(LintRankFile, UnknownHost) {
  expect_one(lint_text("rank 0=a slot=0\nrank 1=z slot=0\n", {kHosts, {}, {}}),
             RankFault::kUnknownHost, 2, {"unknown host 'z'", "a, b"});
  expect_one(lint_text("rank 0=+n2 slot=0\n", {kHosts, {}, {}}),
             RankFault::kUnknownHost, 1, {"'+n2'", "+n0 to +n1"});
}

TEST(LintRankFile, MissingRank) {
  const std::string text = "rank 0=a slot=0\nrank 2=a slot=1\n";
  expect_one(lint_text(text, {}), RankFault::kMissingRank, 2,
             {"rank 1 is missing", "3 ranks"});
  expect_one(lint_text("rank 0=a slot=0\n", {{}, 4, {}}),
             RankFault::kMissingRank, 1, {"ranks 1 to 3 are missing"});
  const auto problems = lint_text(text, {{}, 6, {}});
  ASSERT_EQ(problems.size(), 2u) << text_of(problems);
  EXPECT_NE(problems[1].text.find("ranks 3 to 5"), std::string::npos);
}

TEST(LintRankFile, AnEmptyFileMissesEverything) {
  expect_one(lint_text("# nothing\n", {}), RankFault::kMissingRank, 1,
             {"no rank is placed"});
}

TEST(LintRankFile, TheLargestRankDoesNotOverflow) {
  expect_one(lint_text("rank 2147483647=a slot=0\n", {}),
             RankFault::kMissingRank, 1, {"ranks 0 to 2147483646"});
}

TEST(LintRankFile, ExtraRank) {
  expect_one(lint_text("rank 0=a slot=0\nrank 1=a slot=1\n", {{}, 1, {}}),
             RankFault::kExtraRank, 2, {"rank 1 is too high", "1 rank"});
}

TEST(LintRankFile, DuplicateRankNamesTheFirstLine) {
  expect_one(lint_text("rank 0=a slot=0\nrank 0=a slot=0\n", {}),
             RankFault::kDuplicateRank, 2, {"rank 0", "line 1"});
}

TEST(LintRankFile, NoSuchCoreSaysHowManyThereAre) {
  expect_one(lint_text("rank 0=a slot=8\n", {kHosts, {}, {}}),
             RankFault::kNoSuchCore, 1, {"no core 8", "8 cores", "0 to 7"});
  expect_one(lint_text("rank 0=a slot=6-9\n", {kHosts, {}, {}}),
             RankFault::kNoSuchCore, 1, {"no core 8", "host a"});
  expect_one(lint_text("rank 0=a slot=1:2-4\n", {kHosts, {}, {}}),
             RankFault::kNoSuchCore, 1, {"no core 4 in socket 1", "4 cores"});
  expect_one(lint_text("rank 0=b slot=1:0\n", {kHosts, {}, {}}),
             RankFault::kNoSuchCore, 1, {"no socket 1", "1 socket,"});
  expect_one(lint_text("rank 0=a slot=2:0\n", {kHosts, {}, {}}),
             RankFault::kNoSuchCore, 1, {"no socket 2", "2 sockets", "0 to 1"});
  EXPECT_TRUE(lint_text("rank 0=b slot=0-1\n", {kHosts, {}, {}}).empty());
  EXPECT_TRUE(lint_text("rank 0=b slot=0:*\n", {kHosts, {}, {}}).empty());
}

TEST(LintRankFile, OverlapNamesBothLines) {
  expect_one(lint_text("rank 0=x slot=0-2\n\nrank 1=x slot=2-3\n", {}),
             RankFault::kOverlap, 3,
             {"rank 1", "rank 0", "line 1", "first at core 2"});
  EXPECT_TRUE(lint_text("rank 0=x slot=0\nrank 1=y slot=0\n", {}).empty());
}

TEST(LintRankFile, OverlapOfSocketsAndCores) {
  const RankFileContext known{kHosts, {}, {}};
  expect_one(lint_text("rank 0=a slot=5\nrank 1=+n0 slot=1:1\n", known),
             RankFault::kOverlap, 2, {"first at core 5"});
  expect_one(lint_text("rank 0=a slot=1:*\nrank 1=a slot=3-4\n", known),
             RankFault::kOverlap, 2, {"first at core 4"});
  expect_one(lint_text("rank 0=x slot=0:1\nrank 1=x slot=0:*\n", {}),
             RankFault::kOverlap, 2, {"first at core 1"});
  EXPECT_TRUE(lint_text("rank 0=a slot=3\nrank 1=a slot=1:*\n", known).empty());
}

TEST(LintRankFile, EachPairOverlapsOnce) {
  const auto problems = lint_text(
      "rank 0=x slot=0-3,2,7\nrank 1=x slot=9,3-4\nrank 2=x slot=7-9\n", {});
  ASSERT_EQ(problems.size(), 3u) << text_of(problems);
  EXPECT_NE(problems[0].text.find("rank 1 (slot=9;3-4) overlaps rank 0"),
            std::string::npos);
  EXPECT_NE(problems[0].text.find("first at core 3"), std::string::npos);
  EXPECT_NE(problems[1].text.find("overlaps rank 0"), std::string::npos);
  EXPECT_NE(problems[1].text.find("first at core 7"), std::string::npos);
  EXPECT_NE(problems[2].text.find("first at core 9"), std::string::npos);
}

// 20,000 lines on one core have 200 million overlaps, which would fill the
// memory.
TEST(LintRankFile, StopsAtManyProblems) {
  std::string text;
  for (int rank = 0; rank < 20'000; ++rank)
    text += concat("rank ", rank, "=x slot=0\n");
  const auto problems = lint_text(text, {});
  EXPECT_EQ(problems.size(), 1001u);
  EXPECT_NE(problems.back().text.find("more problems than these 1000"),
            std::string::npos);
}

TEST(LintRankFile, AWholeSocketEndsBeforeTheNext) {
  EXPECT_TRUE(
      lint_text("rank 0=a slot=0:*\nrank 1=a slot=1:0\n", {kHosts, {}, {}})
          .empty());
}

TEST(LintRankFile, ProductMismatchNamesBothNumbers) {
  expect_one(lint_text("rank 0=a slot=0\nrank 1=a slot=1\n",
                       {{}, 2, parse_dims("4x3")}),
             RankFault::kProduct, 2, {"4x3", "12 ranks", "2 ranks"});
}

TEST(LintRankFile, TheReadmeCase) {
  std::string text;
  for (int rank = 0; rank < 16; ++rank)
    text += concat("rank ", rank, "=h", rank / 4, " slot=", rank % 4, "\n");
  expect_one(lint_text(text, {{}, 16, parse_dims("4x8x2")}),
             RankFault::kProduct, 16, {"4x8x2", "64 ranks", "16 ranks"});
}

TEST(LintRankFile, CollectsAllProblemsByLine) {
  const auto problems = lint_text(
      "rank 0=a slot=0\n"
      "rank 0=a slot=99\n"
      "rank 1=zz slot=1\n"
      "rank 5=a slot=0-1\n",
      {kHosts, 4, parse_dims("4x3")});
  std::vector<RankFault> faults;
  for (const Diagnostic& problem : problems) faults.push_back(problem.fault);
  using enum RankFault;
  EXPECT_EQ(faults, (std::vector<RankFault>{kNoSuchCore, kDuplicateRank,
                                            kUnknownHost, kExtraRank,
                                            kMissingRank, kOverlap, kProduct}))
      << text_of(problems);
}

TEST(LintRankFile, FaultsHaveNames) {
  EXPECT_EQ(name_of(RankFault::kSyntax), "syntax");
  EXPECT_EQ(name_of(RankFault::kDuplicateRank), "duplicate_rank");
  EXPECT_EQ(name_of(RankFault::kProduct), "product");
}

TEST(LintRankFile, ManyRanksOfManyHosts) {
  std::string text;
  for (int rank = 0; rank < 20000; ++rank)
    text += concat("rank ", rank, "=h", rank / 20, " slot=", rank % 20, "\n");
  EXPECT_TRUE(lint_text(text, {}).empty());
}

}  // namespace
}  // namespace sheaf::topo

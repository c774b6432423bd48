#include "sheaf/topo/rankfile.hpp"

#include <cstdio>
#include <fstream>

#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

constexpr int kWhole = CoreRange::kWholeHost;

RankFile parse(std::string_view text) {
  std::vector<Diagnostic> faults;
  RankFile file = parse_rankfile(text, "ranks", faults);
  EXPECT_TRUE(faults.empty()) << text_of(faults);
  return file;
}

std::vector<CoreRange> slots_of(const std::string& list) {
  return parse("rank 0=a slot=" + list + "\n").entries.at(0).slots;
}

void expect_syntax_fault(const std::string& line, const std::string& words) {
  std::vector<Diagnostic> faults;
  parse_rankfile("# first\n" + line + "\n", "ranks", faults);
  ASSERT_EQ(faults.size(), 1u) << line;
  EXPECT_EQ(faults[0].fault, RankFault::kSyntax);
  EXPECT_EQ(faults[0].line, 2);
  EXPECT_TRUE(faults[0].text.starts_with("ranks:2: ")) << faults[0].text;
  EXPECT_NE(faults[0].text.find(words), std::string::npos) << faults[0].text;
}

TEST(RankFile, ReadsTheManualsExample) {
  const RankFile file = parse(
      "rank 0=aa slot=1:0-2\n"
      "rank 1=bb slot=0:0,1\n"
      "rank 2=cc slot=1-2\n");
  ASSERT_EQ(file.entries.size(), 3u);
  EXPECT_EQ(file.entries[0].host, "aa");
  EXPECT_EQ(file.entries[2].rank, 2);
  EXPECT_EQ(file.entries[2].line, 3);
  EXPECT_EQ(file.entries[0].slots, (std::vector<CoreRange>{{1, 0, 2}}));
  EXPECT_EQ(file.entries[1].slots,
            (std::vector<CoreRange>{{0, 0, 0}, {0, 1, 1}}));
  EXPECT_EQ(file.entries[2].slots, (std::vector<CoreRange>{{kWhole, 1, 2}}));
}

TEST(RankFile, ReadsEveryFormOfList) {
  EXPECT_EQ(slots_of("3"), (std::vector<CoreRange>{{kWhole, 3, 3}}));
  EXPECT_EQ(slots_of("3-3"), (std::vector<CoreRange>{{kWhole, 3, 3}}));
  EXPECT_EQ(
      slots_of("0,2,4-5"),
      (std::vector<CoreRange>{{kWhole, 0, 0}, {kWhole, 2, 2}, {kWhole, 4, 5}}));
  EXPECT_EQ(slots_of("0:*"),
            (std::vector<CoreRange>{{0, 0, CoreRange::kAllCores}}));
  EXPECT_EQ(slots_of("0:1;1:0-2"),
            (std::vector<CoreRange>{{0, 1, 1}, {1, 0, 2}}));
  EXPECT_EQ(slots_of("1:0,0:3"),
            (std::vector<CoreRange>{{1, 0, 0}, {0, 3, 3}}));
  EXPECT_EQ(slots_of("1:0;7"),
            (std::vector<CoreRange>{{1, 0, 0}, {kWhole, 7, 7}}));
}

TEST(RankFile, BlanksCommentsAndLineEndsDoNotMatter) {
  const RankFile file = parse(
      "# made by hand\r\n\n"
      "  rank 1 = +n2  slots = 0-1  # the second\r\n"
      "rank 0=h slot=2");
  ASSERT_EQ(file.entries.size(), 2u);
  EXPECT_EQ(file.entries[0].line, 3);
  EXPECT_EQ(file.entries[0].host, "+n2");
  EXPECT_EQ(file.entries[1].line, 4);
  EXPECT_EQ(file.lines, 4);
}

TEST(RankFile, SyntaxFaultsSayWhatIsMissing) {
  expect_syntax_fault("host a", "not a rank line");
  expect_syntax_fault("rank =a slot=0", "number is missing");
  expect_syntax_fault("rank x=a slot=0", "rank 'x' is not a whole number");
  expect_syntax_fault("rank -1=a slot=0", "rank '-1'");
  expect_syntax_fault("rank 3 a slot=0", "'=' is missing after rank 3");
  expect_syntax_fault("rank 3= slot=0", "host of rank 3 is missing");
  expect_syntax_fault("rank 3=", "host of rank 3 is missing");
  expect_syntax_fault("rank 3=a", "cores of rank 3 are missing");
  expect_syntax_fault("rank 3=a slot 0", "'=' is missing after slot");
  expect_syntax_fault("rank 3=a slot=", "list of cores");
  expect_syntax_fault("rank 3=+x1 slot=0", "relative host '+x1'");
}

TEST(RankFile, SyntaxFaultsInListsNameTheItem) {
  expect_syntax_fault("rank 3=a slot=0,,1", "core ''");
  expect_syntax_fault("rank 3=a slot=0-", "core ''");
  expect_syntax_fault("rank 3=a slot=3-1", "is in descending order; write 1-3");
  expect_syntax_fault("rank 3=a slot=*", "'*' needs a socket");
  expect_syntax_fault("rank 3=a slot=x:1", "socket 'x'");
  expect_syntax_fault("rank 3=a slot=0 1", "core '0 1'");
  expect_syntax_fault("rank 3=a slot=99999999999", "core '99999999999'");
}

TEST(RankFile, HostsAreNamesOfHosts) {
  expect_syntax_fault("rank 3=a$(x) slot=0", "'a$(x)' contains '$'");
  expect_syntax_fault("rank 3=-x slot=0", "begins with '-'");
}

TEST(RankFile, StopsAtManyFaultsAndLongLists) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "nonsense\n";
  std::vector<Diagnostic> faults;
  parse_rankfile(text, "f", faults);
  ASSERT_EQ(faults.size(), 101u);
  EXPECT_EQ(faults.back().text,
            "f:100: the rest of the file was not read; correct these lines "
            "first");
  std::string list = "rank 3=a slot=0";
  for (int i = 0; i < 4096; ++i) list += ",0";
  expect_syntax_fault(list, "more than 4096 ranges");
  expect_syntax_fault(std::string(100'000, 'x'), "xxx...' is not a rank line");
}

TEST(RankFile, GoodLinesBesideBadOnesAreKept) {
  std::vector<Diagnostic> faults;
  const RankFile file = parse_rankfile(
      "rank 0=a slot=0\nrank ?\nrank 1=a slot=1\nnonsense\n", "f", faults);
  EXPECT_EQ(file.entries.size(), 2u);
  ASSERT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults[0].line, 2);
  EXPECT_EQ(faults[1].line, 4);
}

TEST(RankFile, WritesWhatItReads) {
  const std::string text =
      "rank 0=a slot=0-3\nrank 1=+n1 slot=1:0;1:2\nrank 2=b slot=0:*\n";
  EXPECT_EQ(text_of(parse(text)), text);
}

TEST(RankFile, FilesGoThroughTheDisk) {
  const std::string path = testing::TempDir() + "sheaf_rankfile_test";
  write_rankfile(parse("rank 0=a slot=0\n"), path);
  EXPECT_EQ(text_of(read_rankfile(path)), "rank 0=a slot=0\n");
  std::ofstream(path) << "bad\nrank 0=a slot=0\nworse\n";
  expect_throws<UsageError>([&] { read_rankfile(path); },
                            {path + ":1: ", path + ":3: "});
  std::remove(path.c_str());
  expect_throws<IoError>([&] { read_rankfile(path); }, {path});
}

}  // namespace
}  // namespace sheaf::topo

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/topo/host.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf::cli {
namespace {

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

// While it exists, captures what is written to `stream`.
class Captured {
 public:
  explicit Captured(std::ostream& stream)
      : stream_(stream), before_(stream.rdbuf(text_.rdbuf())) {}
  ~Captured() { stream_.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::ostream& stream_;
  std::streambuf* before_;
};

Outcome run(const std::string& arguments) {
  CLI::App app;
  add_topo_command(app);
  Captured out(std::cout), err(std::cerr);
  Outcome outcome;
  try {
    app.parse("topo " + arguments);
  } catch (const ExitWith& exit) {
    outcome.code = exit.code;
  } catch (const CLI::ParseError&) {
    outcome.code = 2;
  } catch (const Error& error) {
    outcome.code = exit_code(error);
    std::cerr << error.what();
  }
  outcome.out = out.text();
  outcome.err = err.text();
  return outcome;
}

bool prints(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class TopoCommand : public testing::Test {
 protected:
  void write(const std::string& text) { std::ofstream(path_) << text; }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.path() / "ranks";
};

TEST_F(TopoCommand, ShowsThisHost) {
  const topo::HostInfo host = topo::detect_host();
  EXPECT_TRUE(prints(run("").out, host.name));
  const std::string json = run("--json").out;
  EXPECT_TRUE(prints(json, concat("\"cores\": ", host.cores))) << json;
  EXPECT_TRUE(prints(json, concat("\"l3_bytes\": ", host.l3.bytes))) << json;
}

TEST_F(TopoCommand, WhatItMakesPassesItsLinter) {
  EXPECT_EQ(run("--make 4x3 --hosts a,b,c --cores 2x10 -o " + path_).code, 0);
  const Outcome lint = run("--lint " + path_ +
                           " --hosts a,b,c --cores 2x10 -n 12 --topology 4x3");
  EXPECT_EQ(lint.code, 0) << lint.err;
  EXPECT_TRUE(prints(lint.out, "12 ranks, no problems")) << lint.out;
}

TEST_F(TopoCommand, MakesToStandardOutput) {
  EXPECT_EQ(run("--make 2x1 --hosts a --cores 4").out,
            "rank 0=a slot=0-1\nrank 1=a slot=2-3\n");
  EXPECT_EQ(run("--make 1 --hosts a --cores 1 --json").out,
            "{\"rank\": 0, \"host\": \"a\", \"slot\": \"0\"}\n");
}

TEST_F(TopoCommand, ABadFileGivesAllMessagesAnd2) {
  write("rank 0=a slot=0\nrank ?\nrank 1=z slot=1\n");
  const std::string flags =
      "--lint " + path_ + " --hosts a --cores 1 -n 16 --topology 4x8x2";
  const Outcome text = run(flags);
  EXPECT_EQ(text.code, 2);
  for (const char* part : {":2: rank '?'", ":3: unknown host 'z'",
                           ":3: ranks 2 to 15 are missing", "64 ranks, but 16"})
    EXPECT_TRUE(prints(text.err, part)) << part << " in " << text.err;
  const Outcome json = run(flags + " --json");
  EXPECT_EQ(json.code, 2);
  EXPECT_TRUE(prints(json.out, "\"fault\": \"unknown_host\"")) << json.out;
}

TEST_F(TopoCommand, TheCoresOfThisHostAreKnown) {
  write("rank 0=localhost slot=100000\n");
  EXPECT_TRUE(prints(run("--lint " + path_).err, "no core 100000"));
}

TEST_F(TopoCommand, RefusesWrongArguments) {
  EXPECT_EQ(run("--make 4x3 --hosts a,b --cores 8").code, 2);
  EXPECT_EQ(run("--make 4x --hosts a").code, 2);
  EXPECT_EQ(run("--make 4 --lint x").code, 2);
  EXPECT_EQ(run("-n 4").code, 2);
  EXPECT_EQ(run("--make 4 --hosts a --cores 1x2x3").code, 2);
  EXPECT_EQ(run("--lint " + path_ + ".none").code, 5);
}

}  // namespace
}  // namespace sheaf::cli

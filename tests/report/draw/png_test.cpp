#include "sheaf/report/draw/png.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sheaf/base/read_file.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;

// In place of rsvg-convert, a shell script is found. It receives
// --zoom 2 --output PNG SVG.
class Png : public testing::Test {
 protected:
  void SetUp() override { ::setenv("PATH", path_for_tests().c_str(), 1); }
  void TearDown() override { ::setenv("PATH", before_.c_str(), 1); }

  void install(const std::string& commands) const {
    const fs::path program = folder_.path() / "rsvg-convert";
    std::ofstream(program) << "#!/bin/sh\n" << commands << "\n";
    fs::permissions(program, fs::perms::owner_all);
  }
  // The names in the folder besides the script's.
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      if (entry.path().filename() != "rsvg-convert")
        names.push_back(entry.path().filename());
    return names;
  }
  fs::path file() const { return folder_.path() / "figure.png"; }

 private:
  std::string path_for_tests() const { return folder_.path().string(); }

  TemporaryFolder folder_;
  std::string before_ = std::getenv("PATH");
};

const Scene kScene{100, 50, "a title", {}};

TEST_F(Png, IsWhatTheConverterWrote) {
  install("/bin/cp \"$5\" \"$4\"");
  EXPECT_TRUE(write_png(kScene, file()));
  EXPECT_EQ(files(), std::vector<std::string>{"figure.png"});
  EXPECT_EQ(read_file(file()), svg_of(kScene, {.has_dark = false}));
}

TEST_F(Png, WithoutTheConverterThereIsNone) {
  EXPECT_FALSE(write_png(kScene, file()));
  EXPECT_TRUE(files().empty());
}

TEST_F(Png, AFailureOfTheConverterIsAnError) {
  install("echo part > \"$4\"; exit 3");
  expect_throws<IoError>([&] { write_png(kScene, file()); },
                         {"figure.png", "exit code 3"});
  EXPECT_TRUE(files().empty());
}

TEST_F(Png, AConverterThatWritesNothingIsAnError) {
  install("exit 0");
  expect_throws<IoError>([&] { write_png(kScene, file()); },
                         {"figure.png", "exit code 0", "No such file"});
}

}  // namespace
}  // namespace sheaf::report

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "sheaf/base/files.hpp"
#include "sheaf/report/draw/scene.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::report {
namespace {

namespace fs = std::filesystem;

// In place of rsvg-convert, a shell script is found. It receives
// --zoom 2 --output PNG SVG.
class Png : public testing::Test {
 protected:
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
  TemporaryFolder folder_;
  test::ScopedVariable path_{"PATH", folder_.path().string()};
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
                         {"figure.png", "exit code 0"});
}

}  // namespace
}  // namespace sheaf::report

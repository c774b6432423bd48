#pragma once
// A test with a zip archive in a temporary folder.

#include <gtest/gtest.h>

#include <string>

#include "sheaf/formats/zip.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/formats/damage.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::formats {

class ZipTest : public testing::Test {
 protected:
  std::filesystem::path path() const { return folder_.path() / "a.zip"; }
  void write(const std::string& bytes) const { write_bytes(path(), bytes); }
  // An archive whose entry "a" holds "text".
  std::string text_archive() const {
    ZipWriter writer;
    writer.add("a", {"text"});
    writer.save(path());
    return read_file(path());
  }

  TemporaryFolder folder_;
};

}  // namespace sheaf::formats

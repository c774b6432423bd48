#pragma once
// A test with a zip archive in a temporary folder.

#include <gtest/gtest.h>

#include <string>

#include "sheaf/tensor/files/zip.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/tensor/files/damage.hpp"

namespace sheaf::tensor {

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

}  // namespace sheaf::tensor

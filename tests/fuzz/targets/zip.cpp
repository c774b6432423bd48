// Zip archives: the directory, and the content of each entry.
// parser: sheaf/formats/archives/zip_directory.cpp
// sheaf/formats/archives/zip_reader.cpp
#include "sheaf/formats/archives/zip.hpp"

#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "tests/fuzz/fuzz_target.hpp"

using sheaf::formats::ZipEntry;
using sheaf::formats::ZipReader;

namespace {

std::size_t size_of_content(const ZipReader& reader, const ZipEntry& entry) {
  try {
    const auto content = reader.read(entry);
    if (content.bytes().size() != entry.bytes) std::abort();
    return content.bytes().size();
  } catch (const sheaf::Error&) {
    return 0;
  }
}

}  // namespace

SHEAF_FUZZ_TARGET(zip) try {
  const ZipReader reader("input", std::string(input.begin(), input.end()));
  std::size_t total = 0;
  for (const ZipEntry& entry : reader.entries()) {
    if (reader.find(entry.name) != &entry) std::abort();
    total += size_of_content(reader, entry);
  }
  if (total > 1032 * input.size()) std::abort();
  reader.find("another");
} catch (const sheaf::Error&) {
}

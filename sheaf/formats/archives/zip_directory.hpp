#pragma once
// The records of a zip archive that describe its entries.

#include <string>
#include <string_view>
#include <vector>

#include "sheaf/formats/archives/zip.hpp"
#include "sheaf/formats/bytes/byte_reader.hpp"

namespace sheaf::formats {

// The reader of an archive, for errors that name the entry, too.
ByteReader reader_of_entry(const std::string& archive, std::string_view bytes,
                           const ZipEntry& entry);

// The entries of an archive in the order of its directory. Their headers and
// contents lie before the directory and do not overlap. Throws IoError.
std::vector<ZipEntry> read_zip_directory(const std::string& archive,
                                         std::string_view bytes);

}  // namespace sheaf::formats

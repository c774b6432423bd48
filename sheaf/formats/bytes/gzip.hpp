#pragma once
// Decompresses gzip files.

#include <cstdint>
#include <span>

#include "sheaf/formats/bytes/file_bytes.hpp"
#include "sheaf/formats/bytes/memory.hpp"

namespace sheaf::formats {

bool is_gzip(std::span<const std::uint8_t> bytes);

// The content of a gzip file, including files of several concatenated members.
// Memory grows only as data are decompressed, and only while it is available.
// Throws IoError, which names the file, if it is corrupt or too large.
FileBytes unpack_gzip(const FileBytes& packed,
                      AvailableMemory available = available_memory);

}  // namespace sheaf::formats

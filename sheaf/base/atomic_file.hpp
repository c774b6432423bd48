#pragma once
// Writes files atomically: readers never see a partly written file.

#include <filesystem>
#include <span>
#include <string_view>

namespace sheaf {

// Replaces the content of `path` by `content`. Concurrent readers, and readers
// after a crash or a full disk, see either the old or the new content: the file
// is written under a temporary name in the same folder and then renamed.
// Throws IoError, which names the file. Any thread may call it.
void write_file_atomically(const std::filesystem::path& path,
                           std::string_view content);
// Same, for content in several pieces, which are concatenated.
void write_pieces_atomically(const std::filesystem::path& path,
                             std::span<const std::string_view> pieces);

}  // namespace sheaf

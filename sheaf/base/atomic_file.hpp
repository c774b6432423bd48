#pragma once
// Files that are never seen half written.

#include <filesystem>
#include <span>
#include <string_view>

namespace sheaf {

// `path` holds `content` afterwards. Whoever reads it meanwhile, and whoever
// reads it after a crash or a full disk, finds the old content or the new one:
// it is written under another name and then renamed. IoError names the file.
void write_file_atomically(const std::filesystem::path& path,
                           std::string_view content);
// The same for content in pieces, one after another.
void write_pieces_atomically(const std::filesystem::path& path,
                             std::span<const std::string_view> pieces);

}  // namespace sheaf

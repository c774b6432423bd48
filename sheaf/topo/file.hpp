#pragma once
// Whole files as text.

#include <string>
#include <string_view>

namespace sheaf::topo {

std::string read_text(const std::string& path);  // IoError names the file

// Writes beside `path` and renames, so that a good file stays good when the
// disk is full or the process dies. IoError names the file.
void write_text_atomically(const std::string& path, std::string_view text);

}  // namespace sheaf::topo

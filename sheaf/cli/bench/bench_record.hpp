#pragma once
// Rows kept under results/: what was measured, where, how, and when.

#include <string>

#include "sheaf/base/table.hpp"

namespace sheaf::cli {

// Appends the rows to `path` as JSON lines, each with the processor, its
// cores, the command, the commit and the date. IoError names the file.
void append_record(const std::string& path, const Table& rows,
                   const std::string& command_line);

// IoError unless rows can be appended to `path`; makes it and its folder.
void check_appendable(const std::string& path);

// "1a2b3c4d5e6f", with "-dirty" where files have changes; empty when git or
// its repository is not there. Starts a process, so call it before MPI runs.
const std::string& current_commit();

}  // namespace sheaf::cli

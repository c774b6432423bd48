#pragma once
// Appends measurements to files under results/, with machine, command and date.

#include <string>

#include "sheaf/base/table.hpp"

namespace sheaf::cli {

// Appends the rows to `path` as JSON lines, each with the processor, its
// cores, the command, the commit and the date. Throws IoError with the file's
// name.
void append_record(const std::string& path, const Table& rows,
                   const std::string& command_line);

// Creates `path` and its folder; throws IoError if rows cannot be appended.
void check_appendable(const std::string& path);

// The commit, such as "1a2b3c4d5e6f", with "-dirty" if there are changes; empty
// if there is no git or no repository. The first call starts a process, so make
// it before MPI is initialized.
const std::string& current_commit();

}  // namespace sheaf::cli

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/bench/bench_rows.hpp"
#include "sheaf/cli/launch/process.hpp"
#include "sheaf/topo/host.hpp"

namespace sheaf::cli {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string output_of(const char* command) {
  std::string text;
  FILE* pipe = ::popen(command, "r");
  if (!pipe) return text;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe)) text += buffer;
  return ::pclose(pipe) == 0 ? std::string(trim(text)) : "";
}

std::string lines_of(const Table& rows, const std::string& command_line) {
  std::vector<Column> columns = rows.columns();
  for (const char* key : {"processor", "cores", "command", "commit", "date"})
    columns.push_back({.name = key});
  Table full(columns);
  for (std::vector<Cell> cells : rows.rows()) {
    cells.insert(cells.end(),
                 {topo::processor_name(), ::sysconf(_SC_NPROCESSORS_ONLN),
                  command_line, current_commit(), utc_now()});
    full.add_row(cells);
  }
  std::ostringstream out;
  full.print(out, TableFormat::kJson);
  return out.str();
}

void append_text(const std::string& path, std::string_view text) {
  const Fd file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file.is_open() || !write_all(file.get(), text))
    throw IoError(
        concat("cannot append to '", path, "': ", ::strerrordesc_np(errno)));
}

}  // namespace

const std::string& current_commit() {
  static const std::string commit =
      output_of("git describe --always --dirty --abbrev=12 2>/dev/null");
  return commit;
}

void check_appendable(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;  // opening the file reports the error
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  append_text(path, "");
}

void append_record(const std::string& path, const Table& rows,
                   const std::string& command_line) {
  append_text(path, lines_of(rows, command_line));
}

}  // namespace sheaf::cli

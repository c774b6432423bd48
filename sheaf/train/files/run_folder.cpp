#include "sheaf/train/files/run_folder.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

constexpr int kMostRuns = 100000;

fs::path numbered(const std::string& stem, int number) {
  return fs::path("runs") / fmt::format("{}-{:03}", stem, number);
}

int first_free(const std::string& stem) {
  int number = 1;
  while (number < kMostRuns && fs::exists(numbered(stem, number))) ++number;
  return number;
}

fs::path existing_folder(const FolderRequest& request,
                         const std::string& stem) {
  const fs::path path = request.folder.empty()
                            ? numbered(stem, first_free(stem) - 1)
                            : fs::path(request.folder);
  SHEAF_CHECK(
      fs::is_directory(path), "no run to resume in ",
      request.folder.empty() ? numbered(stem, 1).string() : path.string(),
      "; give its folder with --output, or omit --resume");
  return path;
}

void check_empty(const fs::path& path) {
  SHEAF_CHECK(!fs::exists(path) || fs::is_directory(path), path.string(),
              " is a file, not a folder; choose another with --output");
  SHEAF_CHECK(!fs::exists(path) || fs::is_empty(path), "the folder ",
              path.string(),
              " already contains a run; resume it with --resume, or choose "
              "another with --output");
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    throw IoError(concat("cannot create the folder ", path.string(), ": ",
                         error.message(), "; choose another with --output"));
}

// A line truncated by a crash is not a row.
bool is_row_before(const std::string& line, std::int64_t step) {
  const auto row = nlohmann::json::parse(line, nullptr, false);
  return row.is_object() && row.contains("step") &&
         row["step"].is_number_integer() && row["step"] < step;
}

std::string kept_rows(const fs::path& path, std::int64_t next_step) {
  std::ifstream in(path);
  std::string kept;
  for (std::string line; std::getline(in, line);)
    if (is_row_before(line, next_step)) kept += line + "\n";
  return kept;
}

}  // namespace

std::string json_of(const Row& row) {
  std::string text = "{";
  for (const auto& [key, value] : row) {
    if (text.size() > 1) text += ", ";
    text += Cell(key).as_json() + ": " + value.as_json();
  }
  return text + "}";
}

std::filesystem::path open_run_folder(const FolderRequest& request) {
  const std::string stem = fs::path(request.config_name).stem().string();
  if (request.is_resumed) return existing_folder(request, stem);
  const fs::path path = request.folder.empty()
                            ? numbered(stem, first_free(stem))
                            : fs::path(request.folder);
  check_empty(path);
  make_folder(path);
  return path;
}

RunLog::RunLog(std::filesystem::path path, std::int64_t next_step)
    : path_(std::move(path)) {
  write_file_atomically(path_, kept_rows(path_, next_step));
  out_.open(path_, std::ios::app);
}

void RunLog::add(const Row& row, bool flush) { add_line(json_of(row), flush); }

void RunLog::add_line(const std::string& line, bool flush) {
  out_ << line << '\n';
  if (flush) out_.flush();
  if (!out_)
    throw IoError(concat("cannot write ", path_.string(),
                         "; check that the disk has space left"));
}

}  // namespace sheaf::train

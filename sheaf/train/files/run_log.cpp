#include "sheaf/train/files/run_log.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/train/files/durable.hpp"

namespace sheaf::train {
namespace {

// A line truncated by a crash is not a row.
bool is_row_before(std::string_view line, std::int64_t step) {
  const auto row = nlohmann::json::parse(line, nullptr, false);
  return row.is_object() && row.contains("step") &&
         row["step"].is_number_integer() && row["step"] < step;
}

std::string kept_rows(const std::filesystem::path& path,
                      std::int64_t next_step) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (fs::status(path, none).type() == fs::file_type::not_found) return "";
  const std::string text = read_file(path);
  std::string kept;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto line = std::string_view(text).substr(begin, end - begin);
    if (is_row_before(line, next_step)) kept.append(line) += '\n';
    begin = end + 1;
  }
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

RunLog::RunLog(std::filesystem::path path, std::int64_t next_step)
    : path_(std::move(path)) {
  write_file_atomically(path_, kept_rows(path_, next_step));
  out_.open(path_, std::ios::app);
  if (!out_) fail();
}

void RunLog::add(const Row& row, bool flush) { add_line(json_of(row), flush); }

void RunLog::add_line(const std::string& line, bool flush) {
  out_ << line << '\n';
  if (flush) out_.flush();
  if (!out_) fail();
}

void RunLog::sync() {
  out_.flush();
  if (!out_) fail();
  sync_file(path_);
}

void RunLog::fail() const {
  throw IoError(concat("cannot write ", path_.string(),
                       "; check that the disk has space left"));
}

SummaryFile parse_summary_file(const std::string& text) {
  const JsonSource source{"summary.json"};
  SummaryFile summary;
  try {
    const nlohmann::json json = parse_json(text, source);
    for (const auto& [key, value] : JsonValue(json, source).members()) {
      if (key == "ending")
        summary.ending = value.text();
      else if (value.json().is_number())
        summary.numbers[key] = value.number();
    }
  } catch (const IoError&) {
    return {};
  }
  return summary;
}

}  // namespace sheaf::train

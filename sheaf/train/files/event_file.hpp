#pragma once
// TensorBoard event files: scalars by step.
//
// A record is its length (8 bytes), the masked CRC-32C of the length, the
// data, and the masked CRC-32C of the data, all little-endian. The data is a
// protocol buffer Event: wall_time = 1 (double), step = 2 (varint),
// file_version = 3 (string), summary = 5. A Summary has values = 1, each with
// tag = 1 (string) and simple_value = 2 (float).

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::train {

using Scalars = std::vector<std::pair<std::string, double>>;

// Creates a new file in the folder, with a name that TensorBoard recognizes.
// For one thread.
class EventFile {
 public:
  // Throws an IoError that names the file.
  explicit EventFile(const std::filesystem::path& folder);

  // Adds one record and flushes it. Non-finite scalars are omitted.
  void add(std::int64_t step, const Scalars& scalars);

  const std::filesystem::path& path() const { return path_; }

 private:
  void write_record(const std::string& data);

  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace sheaf::train

#pragma once
// Small run folders for tests.

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/base/temporary_folder.hpp"

namespace sheaf::report {

class RunFiles {
 public:
  // Writes the file `name` of the run, and returns the run's folder.
  std::filesystem::path write(const std::string& run, const std::string& name,
                              const std::string& text) const {
    const std::filesystem::path folder = folder_.path() / run;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / name, std::ios::binary) << text;
    return folder;
  }

  // A run whose batch i took `ms` + i milliseconds, with 1000 bytes.
  std::filesystem::path write_batches(const std::string& run, int count,
                                      double ms,
                                      const std::string& more = "") const {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += fmt::format(
          R"({{"kind": "batch", "epoch": 0, "batch": {0}, "step": {0}, )"
          R"("loss": {1}, "batch_duration": {2}, "bytes_sent": 1000{3}}})"
          "\n",
          i, 1.0 / (i + 1), ms + i, more);
    return write(run, "log.jsonl", text);
  }

  std::filesystem::path path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
};

}  // namespace sheaf::report

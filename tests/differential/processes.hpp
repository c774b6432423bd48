#pragma once
// The same cases on real ranks: each process runs its rank of a case; rank 0
// reads what all have found and compares it with the reference.

#include <filesystem>

#include "compare.hpp"

namespace differential {

// Collects the results of ranks in a folder that all of them see.
class Processes {
 public:
  // Of the groups of cases; below the watchdog's limit.
  static constexpr int kTimeoutMs = 60000;

  explicit Processes(const sheaf::comm::Group& world);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // All ranks call it with the same case, and get the same verdict; the reason
  // is known to rank 0.
  Finding check(const Case& one) const;
  // What rank 0 says.
  bool agree(bool choice) const;
  bool is_first() const { return world_.rank() == 0; }
  int size() const { return world_.size(); }

 private:
  const sheaf::comm::Group& world_;
  std::filesystem::path folder_;
};

// One rank's results as two files, PATH.txt and PATH.pt.
void save_result(const RankResult& result, const std::filesystem::path& path);
RankResult load_result(const std::filesystem::path& path);

}  // namespace differential

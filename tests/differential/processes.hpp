#pragma once
// Runs the same cases on real ranks: each process runs its rank of a case; rank
// 0 reads the results of all ranks and compares them with the reference.

#include <filesystem>

#include "compare.hpp"

namespace differential {

// Collects the results of ranks in a folder that all of them can access.
class Processes {
 public:
  // Timeout of the groups of cases; below the watchdog's limit.
  static constexpr int kTimeoutMs = 60000;

  explicit Processes(const sheaf::comm::Group& world);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // All ranks must call it with the same case, and get the same verdict; the
  // reason is known only to rank 0.
  Finding check(const Case& one) const;
  // Returns the choice of rank 0.
  bool agree(bool choice) const;
  bool is_first() const { return world_.rank() == 0; }
  int size() const { return world_.size(); }

 private:
  const sheaf::comm::Group& world_;
  std::filesystem::path folder_;
};

// Writes the results of one rank to two files, PATH.txt and PATH.pt.
void save_result(const RankResult& result, const std::filesystem::path& path);
RankResult load_result(const std::filesystem::path& path);

}  // namespace differential

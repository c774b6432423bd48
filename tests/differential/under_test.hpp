#pragma once
// Runs a case with its strategy: the program of each rank with Sheaf.

#include <string>
#include <vector>

#include "plain/session.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"

namespace differential {

// A wrapped module.
class Wrapped {
 public:
  virtual ~Wrapped() = default;
  virtual Session::Outputs forward(const Input& input) = 0;
  virtual sheaf::parallel::Strategy& strategy() = 0;
  // The model, if it can join(); otherwise null.
  virtual sheaf::parallel::DataParallelCore* data() { return nullptr; }
  virtual at::Tensor whole(const at::Tensor& output) { return output; }
};

// One function for each family of strategies.
std::unique_ptr<Wrapped> wrap_data(const Case& one, std::shared_ptr<Net> net,
                                   const sheaf::comm::Group& group);
std::unique_ptr<Wrapped> wrap_dad(const Case& one, std::shared_ptr<Net> net,
                                  const sheaf::comm::Group& group);
std::unique_ptr<Wrapped> wrap_spatial(const Case& one, std::shared_ptr<Net> net,
                                      const sheaf::comm::Group& group);
std::unique_ptr<Wrapped> wrap_plan(const Case& one, std::shared_ptr<Net> net,
                                   const sheaf::comm::Group& group);
sheaf::parallel::DataParallelOptions data_options(const Case& one);
double bucket_mb(const Case& one);

// The outcome of a rank. `kind` is empty if there was no error.
struct RankResult {
  Record record;
  std::string kind;  // "UsageError", ...
  std::string error;
};

// The whole program of one rank; does not throw.
RankResult run_rank(const Case& one, const sheaf::comm::Group& group);

// All ranks, as threads of this process.
std::vector<RankResult> run_threads(const Case& one);

}  // namespace differential

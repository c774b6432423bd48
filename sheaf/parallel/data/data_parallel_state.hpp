#pragma once
// What a DataParallel holds, and the join() of one or several of them. Internal
// to data_parallel.cpp and data_parallel_join.cpp.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/parallel/common/module_tensors.hpp"
#include "sheaf/parallel/common/parameter_claim.hpp"
#include "sheaf/parallel/common/wrapped_parameters.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"

namespace sheaf::parallel {

// What a rank announces within join(): that it has finished, or what comes
// next. The last three end join() on all ranks.
enum class JoinWord : std::uint8_t {
  kFinished,
  kPass,
  kBuffers,
  kChanged,  // the module
  kMixed,    // averages with gradients of no_sync()
  kFailed    // a pass, with an error that all ranks have
};

// What all ranks have announced; those that have not finished agree.
struct JoinRound {
  JoinWord word = JoinWord::kFinished;
  std::size_t model = 0;  // among those that join together
  int active = 0;         // ranks that have not finished
  int first = 0;          // of them
};

struct DataParallelCore::State {
  std::shared_ptr<torch::nn::Module> module;
  comm::Group group;  // our own: users' operations do not come between
  DataParallelOptions options;
  ModuleTensors tensors;
  std::optional<WrappedParameters> wrapped;
  ParameterClaim claim;
  std::unique_ptr<Reducer> reducer;  // none in a group of one
  BackwardPass pass;
  std::weak_ptr<JoinState> join;
  std::size_t join_number = 0;  // among its models
  std::int64_t passes = 0;      // since join()
  std::function<void()> before_pass;

  bool keeps(const at::Tensor& parameter) const;
  void set_active(int ranks, const JoinOptions& join_options) const;

  // The join() that is under way, or null.
  std::shared_ptr<JoinState> joining() const;
  JoinRound announce(JoinWord word) const;
  void end_join_after_failure();
  // All ranks get the weights of one that made the most passes.
  void share_last();
};

// Lives as long as the guard that join() returns.
struct DataParallelCore::JoinState {
  std::vector<State*> models;
  comm::Group group;  // of announcements
  JoinOptions options;
  std::deque<ParameterHooks> hooks;  // of all models
  bool is_on = true;

  // An error that a pass ends with on all ranks ends it on all of them.
  bool has_ended() const;
  void end();
  // Tells the other ranks what this one does next.
  JoinRound announce(JoinWord word, std::size_t model = 0);
  // Takes part in what others do, until all ranks have finished.
  void follow();

 private:
  [[noreturn]] void fail(const std::string& reason);
  std::string place(JoinWord word, std::size_t model) const;
};

}  // namespace sheaf::parallel

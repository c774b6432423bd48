#pragma once
// The state of a DataParallel, and of a join() over one or several of them.
// Internal to data_parallel.cpp and data_parallel_join.cpp.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sheaf/parallel/common/module_tensors.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/common/wrapped_parameters.hpp"
#include "sheaf/parallel/data/data_parallel.hpp"
#include "sheaf/parallel/data/reducer.hpp"

namespace sheaf::parallel {

// A rank's announcement within join(): that it has finished, or its next
// operation. The last three values end join() on all ranks.
enum class JoinWord : std::uint8_t {
  kFinished,
  kPass,
  kBuffers,
  kChanged,  // the module has changed
  kMixed,    // no_sync() while .grad() holds averages
  kFailed    // a pass has failed with the same error on all ranks
};

// The result of an announcement by all ranks. All ranks that have not finished
// have announced the same.
struct JoinRound {
  JoinWord word = JoinWord::kFinished;
  std::size_t model = 0;  // index among the joined models
  int active = 0;         // ranks that have not finished
  int first = 0;          // the first active rank
};

struct DataParallelCore::State {
  std::shared_ptr<torch::nn::Module> module;
  // Separate, so that operations of the user cannot interfere.
  comm::Group group;
  DataParallelOptions options;
  ModuleTensors tensors;
  std::optional<WrappedParameters> wrapped;
  ParameterClaim claim;
  std::unique_ptr<Reducer> reducer;  // null in a group of one
  BackwardPass pass;
  std::weak_ptr<JoinState> join;
  std::size_t join_number = 0;  // index among the joined models
  std::int64_t passes = 0;      // number of passes since join()
  std::function<void()> before_pass;

  bool keeps(const at::Tensor& parameter) const;
  void set_active(int ranks, const JoinOptions& join_options) const;

  // The join() in progress, or null.
  std::shared_ptr<JoinState> joining() const;
  JoinRound announce(JoinWord word) const;
  void end_join_after_failure();
  // Copies the weights of the first rank with the most passes to all ranks.
  void share_last();
};

// Exists as long as the guard that join() returns.
struct DataParallelCore::JoinState {
  std::vector<State*> models;
  comm::Group group;  // for announcements
  JoinOptions options;
  std::deque<ParameterHooks> hooks;  // for all models
  bool is_on = true;

  // Also true after a pass that failed with the same error on all ranks.
  bool has_ended() const;
  void end();
  // Announces the next operation of this rank to the other ranks, and returns
  // what they have announced.
  JoinRound announce(JoinWord word, std::size_t model = 0);
  // Takes part in the operations of the other ranks until all ranks have
  // finished.
  void follow();

 private:
  [[noreturn]] void fail(const std::string& reason);
  std::string place(JoinWord word, std::size_t model) const;
};

}  // namespace sheaf::parallel

#include "sheaf/train/loop/session.hpp"

#include <algorithm>
#include <thread>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/train/checkpoint/kept_state.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/setup/fit_check.hpp"
#include "sheaf/train/setup/network_setup.hpp"
#include "sheaf/train/setup/plan_setup.hpp"

namespace sheaf::train {
namespace {

void set_threads(const RunConfig& config, const comm::Group& group) {
  const int cores =
      static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int share = std::max(1, cores / group.local_size());
  const auto wanted = static_cast<int>(config.threads_of(group.rank()));
  torch::set_num_threads(wanted > 0 ? wanted : share);
  // Optimizer moments of unused weights decay to denormal numbers, which are
  // many times slower to process.
  at::globalContext().setFlushDenormal(true);
}

// Describes the data in messages: " (npy in DIR)".
std::string source_of(const DataConfig& data) {
  return data.folder.empty()
             ? concat(" (", data.name, ")")
             : concat(" (", data.name, " in ", data.folder, ")");
}

}  // namespace

TrainingSession::TrainingSession(const comm::Group& group,
                                 const RunConfig& config,
                                 const SessionOptions& options)
    : group_(group), config_(config) {
  const torch::Device device = device_of_rank(config, group);
  set_threads(config, group);
  check_strategy();
  samples_ = sample_ranks(config, group);
  const std::string source = options.data ? "" : source_of(config.data);
  outputs_ = std::stoll(from_root(group, [&] {
    prepare(options, source);
    return std::to_string(outputs_of(options, source));
  }));
  if (!is_first()) prepare(options, source);
  check_plan(config, *model_.module, group, device);
}

void TrainingSession::check_strategy() const {
  from_root(group_, [this] {
    SHEAF_CHECK(
        config_.parallel.strategy != StrategyKind::kNone || group_.size() == 1,
        config_.where("parallel.strategy"),
        "parallel.strategy is none, which requires one rank, but there "
        "are ",
        group_.size(), "; set parallel.strategy=data or -n 1");
    return std::string();
  });
}

void TrainingSession::prepare(const SessionOptions& options,
                              const std::string& source) {
  sets_ = options.data ? *options.data : open_data(config_);
  check_classes(sets_);
  check_targets(config_, sets_, source);
  model_ = options.model ? *options.model : make_model(config_);
  stack_ = dynamic_cast<nn::Pretrainable*>(model_.module.get());
  check_stack();
  loaders_ = open_loaders(config_, sets_, *model_.module, samples_, group_);
}

// Skipped for split images, which may be too large for one rank, and for a
// user's model, which may count its calls.
std::int64_t TrainingSession::outputs_of(const SessionOptions& options,
                                         const std::string& source) const {
  if (options.model || splits_images(config_.parallel.strategy)) return 0;
  return check_outputs(config_, model_, sets_, source);
}

void TrainingSession::check_stack() const {
  const PretrainingConfig& wanted = config_.pretraining;
  const char* key = wanted.epochs > 0 ? "epochs" : "classifier_epochs";
  SHEAF_CHECK(stack_ || (wanted.epochs == 0 && wanted.classifier_epochs == 0),
              config_.where(concat("pretraining.", key)), "pretraining.", key,
              " is above 0, but the network '", config_.network.name,
              "' has no stages to pre-train; remove it, or set network=gb");
}

void TrainingSession::start(TraceWriter* trace) {
  learner_.emplace(config_, model_, group_, trace);
  schedule_.emplace(config_, loaders_.train->batches());
}

std::int64_t TrainingSession::classes() const {
  const std::int64_t known = sets_.train->classes();
  if (config_.loss == "mse" || known == 0) return 0;
  return std::max(known, outputs_);
}

StepResult TrainingSession::step(const data::Batch& batch,
                                 const StepRequest& request, Metrics& metrics) {
  StepResult result;
  result.learning_rate = schedule_->rate(request.step);
  std::optional<KeptBuffers> before;
  if (config_.on_non_finite == "skip") {
    before.emplace(learner_->module());
    metrics.mark();
  }
  auto [times, mine] = learner_->compute(batch, request.step, metrics);
  const Agreement all = agree(mine, request);
  result.totals = all.totals;
  result.must_stop = all.must_stop;
  const bool applies = all.is_finite || request.applies_always;
  const bool is_good = applies && learner_->apply(result.learning_rate, times);
  result.is_applied =
      is_good || request.applies_always || (applies && !checks_finite());
  if (!result.is_applied && before) {
    metrics.take_back();
    before->put_back();
  }
  result.times = times;
  return result;
}

// One small all-reduce between the backward pass and the update. Every step
// needs it: whether the step may be applied depends on the losses and gradients
// of all ranks (the exchange of gradients includes neither losses nor gradients
// that ranks keep), and a signal may reach any rank at any time, but all must
// stop after the same step. The totals, which the log contains for every step,
// are sent with it.
TrainingSession::Agreement TrainingSession::agree(
    const Totals& mine, const StepRequest& request) const {
  const bool wants_stop = request.wants_stop && request.wants_stop();
  const bool is_finite = !checks_finite() || learner_->is_step_finite();
  std::vector<double> sums{mine.rows, mine.loss, mine.hits,
                           wants_stop ? 1.0 : 0.0, is_finite ? 0.0 : 1.0};
  comm::all_reduce(group_, sums, {.name = "batch"}).wait();
  return {{sums[0], sums[1], sums[2]}, sums[3] > 0, sums[4] == 0};
}

}  // namespace sheaf::train

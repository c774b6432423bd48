#include "sheaf/train/loop/trainer.hpp"

#include <algorithm>
#include <thread>

#include "sheaf/base/atomic_file.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/loop/trainer_run.hpp"
#include "sheaf/train/setup/device_setup.hpp"
#include "sheaf/train/setup/fit_check.hpp"
#include "sheaf/train/setup/network_setup.hpp"
#include "sheaf/train/setup/plan_setup.hpp"
#include "sheaf/train/setup/routes_file.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

// Whether the module has layers that reject a single row: BatchNorm1d has one
// value per channel and row, layers for images have many.
bool normalizes_vectors(const torch::nn::Module& module) {
  const auto modules = module.modules();
  return std::any_of(modules.begin(), modules.end(), [](const auto& one) {
    return one->template as<torch::nn::BatchNorm1d>() != nullptr;
  });
}

}  // namespace

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

data::LoaderOptions loader_options(const RunConfig& config, bool is_training,
                                   const DataSets& sets,
                                   const comm::Group& samples,
                                   const comm::Group& group) {
  data::LoaderOptions options;
  options.global_batch = config.global_batch;
  options.workers = config.data.workers;
  options.seed = static_cast<std::uint64_t>(config.seed);
  options.shuffle = is_training;
  if (is_training && config.data.sites == "by_class")
    options.sites = sites_by_class(*sets.train, samples.size());
  if (config.shares.size() > 1) options.shares = config.shares;
  options.pin_memory = config.device_of(group.rank()) == "cuda";
  options.transform = is_training ? sets.transform : sets.evaluation_transform;
  options.tile = tile_of(config, group);
  return options;
}

std::string_view name_of(Ending ending) noexcept {
  switch (ending) {
    case Ending::kStoppedEarly:
      return "stopped early";
    case Ending::kStoppedBySignal:
      return "stopped by a signal";
    default:
      return "finished";
  }
}

TrainerRun::TrainerRun(const comm::Group& group, const RunConfig& config,
                       const TrainOptions& options)
    : group_(group), config_(config), options_(options) {
  const torch::Device device = device_of_rank(config, group);
  set_threads(config, group);
  check_strategy();
  samples_ = sample_ranks(config, group);
  // Done before the folder is created, so that an invalid network or dataset
  // leaves none behind. First on rank 0, so that an error is reported once.
  Model model;
  const auto prepare = [&] {
    sets_ = options.data ? *options.data : open_data(config);
    check_classes(sets_);
    check_targets(config, sets_, data_source());
    model = options.model ? *options.model : make_model(config);
    stack_ = dynamic_cast<nn::Pretrainable*>(model.module.get());
    check_stack();
    open_loaders(*model.module);
  };
  outputs_ = std::stoll(from_root(group, [&] {
    prepare();
    return std::to_string(outputs_of(model));
  }));
  if (!is_first()) prepare();
  check_plan(config, *model.module, group, device);
  if (options.is_resumed) accept_resumption(model);
  make_learner(std::move(model));
  if (has_finished_) return;
  open_folder();
  open_journal();
}

std::string TrainerRun::data_source() const {
  if (options_.data) return "";
  const DataConfig& data = config_.data;
  return data.folder.empty()
             ? concat(" (", data.name, ")")
             : concat(" (", data.name, " in ", data.folder, ")");
}

std::int64_t TrainerRun::outputs_of(const Model& model) const {
  if (options_.model || config_.parallel.strategy == "spatial") return 0;
  return check_outputs(config_, model, sets_, data_source());
}

void TrainerRun::make_learner(Model model) {
  if (config_.output.trace && !has_finished_)
    trace_ = std::make_unique<TraceWriter>(TraceOptions{.rank = group_.rank()});
  learner_.emplace(config_, std::move(model), group_, trace_.get());
  schedule_.emplace(config_, train_loader_->batches());
  // Collective, so that rank 0 writes nothing if another rank fails.
  from_all(group_, /*numbers=*/0, [this] {
    if (!state_.weights.empty()) learner_->load_from(state_);
    return std::vector<std::int64_t>{};
  });
}

void TrainerRun::check_strategy() const {
  from_root(group_, [this] {
    SHEAF_CHECK(config_.parallel.strategy != "none" || group_.size() == 1,
                config_.where("parallel.strategy"),
                "parallel.strategy is none, which requires one rank, but there "
                "are ",
                group_.size(), "; set parallel.strategy=data or -n 1");
    return std::string();
  });
}

void TrainerRun::open_folder() {
  result_.folder = from_root(group_, [this] {
    const fs::path folder = open_run_folder(
        {config_.output.folder, options_.config_name, options_.is_resumed});
    if (checkpoints_ && !state_.weights.empty()) {
      checkpoints_->set_aside_after(state_.step);
      checkpoints_->repair_links(state_);
    }
    write_file_atomically(folder / "config.yaml", print_config(config_));
    return folder.string();
  });
  // Other hosts need the folder, too, for per-rank files.
  fs::create_directories(result_.folder);
  checkpoints_.emplace(result_.folder / "checkpoints", config_.output.keep);
  if (trace_)
    trace_->open(result_.folder /
                 (is_first() ? "trace.json"
                             : concat("trace.rank", group_.rank(), ".json")));
}

void TrainerRun::open_loaders(const torch::nn::Module& module) {
  auto training = loader_options(config_, true, sets_, samples_, group_);
  training.avoids_single_rows =
      config_.parallel.sync_batchnorm && normalizes_vectors(module);
  const auto evaluation =
      loader_options(config_, false, sets_, samples_, group_);
  SHEAF_CHECK(sets_.train->size() > 0, "the training set is empty");
  train_loader_.emplace(sets_.train, samples_, training);
  if (sets_.validation)
    validation_loader_.emplace(sets_.validation, samples_, evaluation);
  if (sets_.test) test_loader_.emplace(sets_.test, samples_, evaluation);
}

void TrainerRun::open_journal() {
  state_.seed = config_.seed;
  state_.global_batch = config_.global_batch;
  state_.examples = sets_.train->size();
  state_.class_names = sets_.train->class_names();
  if (!is_first()) return;
  JournalOptions options{result_.folder, state_.step - pretraining_left(),
                         train_loader_->batches(), options_.out,
                         options_.progress};
  journal_.emplace(config_, options);
  if (options_.is_resumed) say_resumption();
}

RunResult TrainerRun::run() {
  if (has_finished_) return finished_result();
  Ending ending = pretrain() ? Ending::kFinished : Ending::kStoppedBySignal;
  while (ending == Ending::kFinished && state_.epoch < config_.epochs &&
         !state_.has_stopped_early) {
    if (train_epoch()) continue;
    ending = Ending::kStoppedBySignal;
    break;
  }
  if (state_.has_stopped_early) ending = Ending::kStoppedEarly;
  if (ending != Ending::kStoppedBySignal) test();
  finish(ending);
  return result_;
}

bool TrainerRun::train_epoch() {
  Stopwatch data_watch;
  epoch_watch_ = Stopwatch();
  epoch_seconds_before_ = state_.totals.open_epoch_seconds;
  Metrics metrics(classes());
  if (is_first() && !state_.metric_sums.empty())
    metrics.go_on_with(state_.metric_sums);
  state_.metric_sums.clear();
  learner_->set_training(true);
  learner_->share_weights();
  choose_learners();
  train_loader_->set_epoch(state_.epoch);
  train_loader_->start_at(state_.batch);
  for (data::Batch& batch : *train_loader_) {
    if (!train_batch(batch, data_watch.lap(), metrics)) return false;
    data_watch.lap();
  }
  metrics.sum_over(group_);
  end_epoch(metrics);
  return true;
}

bool TrainerRun::train_batch(data::Batch& batch, double data_ms,
                             Metrics& metrics) {
  Stopwatch watch;
  const double rate = schedule_->rate(state_.step);
  if (config_.on_non_finite == "skip") before_step_.emplace(learner_->module());
  metrics.mark();
  StepTimes times = learner_->compute(batch, state_.step, metrics);
  // Decided before the weights change: either all ranks apply the step or none.
  const auto [totals, must_stop, is_finite] = agree(metrics.since_mark());
  const bool is_stepped =
      is_finite && (learner_->apply(rate, times) || !checks_finite());
  if (!is_stepped) refuse_step(batch, metrics);
  if (is_stepped && normalizes_filters_) nn::normalize_filters(*stack_);
  times.data = data_ms;
  times.batch = watch.lap() + data_ms;
  state_.totals.open_times += times;
  if (journal_)
    tell(BatchReport{state_.epoch, state_.batch, state_.step, totals,
                     classes() > 0, rate, times, !is_stepped});
  ++state_.step;
  ++state_.batch;
  const std::int64_t check = config_.check_weights_every;
  if (check > 0 && state_.step % check == 0) learner_->check_weights();
  const std::int64_t every = config_.output.checkpoint_every;
  // The end of the epoch saves a checkpoint itself, with the metric.
  const bool is_last = state_.batch == train_loader_->batches();
  const bool is_due = every > 0 && state_.step % every == 0 && !is_last;
  if (is_due || (must_stop && !is_last)) save(&metrics);
  return !must_stop || is_last;
}

void TrainerRun::tell(const BatchReport& report) {
  if (report.times.has_factors) {
    const auto routes = learner_->routes();
    std::string names;
    for (const parallel::DadRoute& one : routes) names += one.route + "\n";
    if (std::exchange(told_routes_, names) != names)
      journal_->write_routes(routes);
    tell_plan();
    if (config_.dad.log_layers) journal_->add_layers(report, routes);
  }
  journal_->add(report);
}

void TrainerRun::tell_plan() {
  const parallel::FixedRoutes fixed = learner_->fixed_routes();
  if (fixed.empty()) return;
  const std::string text = routes_text(fixed);
  if (std::exchange(told_plan_, text) != text)
    write_file_atomically(result_.folder / "dad_plan.json", text);
}

TrainerRun::Agreement TrainerRun::agree(const Totals& mine) const {
  const bool is_finite = !checks_finite() || learner_->is_step_finite();
  std::vector<double> sums{mine.rows, mine.loss, mine.hits,
                           stop_.has_come() ? 1.0 : 0.0, is_finite ? 0.0 : 1.0};
  comm::all_reduce(group_, sums, {.name = "batch"}).wait();
  return {{sums[0], sums[1], sums[2]}, sums[3] > 0, sums[4] == 0};
}

}  // namespace sheaf::train

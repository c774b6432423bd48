#include "sheaf/train/loop/run_output.hpp"

#include <cmath>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/train/files/durable.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/files/run_log.hpp"
#include "sheaf/train/log/journal.hpp"
#include "sheaf/train/setup/plan_setup.hpp"

namespace sheaf::train {

namespace fs = std::filesystem;

namespace {

// Keeps the trace of the part of the run before a resumption as trace.json.1,
// and so on.
void keep_earlier(const fs::path& trace) {
  std::error_code none;
  if (!fs::exists(trace, none)) return;
  int number = 1;
  const auto numbered = [&] {
    return fs::path(concat(trace.string(), ".", number));
  };
  while (fs::exists(numbered(), none)) ++number;
  rename_path(trace, numbered());
}

}  // namespace

RunOutput::RunOutput(const TrainingSession& session,
                     const TrainOptions& options, const TrainState& state,
                     RunFolder& folder, TraceWriter* trace)
    : session_(session),
      folder_(open_folder(session, options, state, folder)),
      checkpoints_(folder_ / "checkpoints", session.config().output.keep) {
  if (!trace) return;
  const fs::path file =
      folder_ / (session.is_first()
                     ? "trace.json"
                     : concat("trace.rank", session.group().rank(), ".json"));
  keep_earlier(file);
  trace->open(file);
}

fs::path RunOutput::open_folder(const TrainingSession& session,
                                const TrainOptions& options,
                                const TrainState& state, RunFolder& folder) {
  const OutputConfig& output = session.config().output;
  const fs::path result = from_root(session.group(), [&] {
    if (options.is_resumed)
      folder.begin_writing();
    else
      folder = RunFolder::create({output.folder, options.config_name});
    if (options.is_resumed && !state.weights.empty())
      CheckpointFolder(folder.path() / "checkpoints", output.keep)
          .repair(state);
    write_file_atomically(folder.path() / "config.yaml",
                          print_config(session.config()));
    return folder.path().string();
  });
  // Other hosts need the folder, too, for per-rank files.
  if (!session.is_first()) create_folders(result);
  return result;
}

void RunOutput::open_journal(const TrainOptions& options,
                             std::int64_t next_step) {
  if (!session_.is_first()) return;
  journal_.emplace(
      session_.config(),
      JournalOptions{folder_, next_step, session_.loaders().train->batches(),
                     options.out, options.progress});
}

const TrainingStrategy& RunOutput::strategy() const {
  return session_.learner().strategy();
}

void RunOutput::sync() {
  if (journal_) journal_->sync();
}

void RunOutput::print(const std::string& line) {
  if (journal_) journal_->say(line);
}

void RunOutput::report(const BatchReport& report) {
  if (!journal_) return;
  if (report.times.has_factors) {
    const auto routes = strategy().routes();
    std::string names;
    for (const parallel::DadRoute& one : routes) names += one.route + "\n";
    if (std::exchange(saved_routes_, names) != names)
      journal_->write_routes(routes);
    save_routes();
    if (session_.config().dad.log_layers) journal_->add_layers(report, routes);
  }
  journal_->add(report);
}

void RunOutput::save_routes() {
  if (!journal_) return;
  const parallel::FixedRoutes fixed = strategy().fixed_routes();
  if (fixed.empty()) return;
  const std::string text = routes_text(fixed);
  if (std::exchange(saved_plan_, text) != text)
    write_file_atomically(folder_ / "dad_plan.json", text);
}

namespace {

// "" if there is no summary.
std::string summary_text(const fs::path& folder) {
  const fs::path file = folder / "summary.json";
  std::error_code none;
  return fs::exists(file, none) ? read_whole(file) : "";
}

std::optional<Ending> ending_in(const SummaryFile& summary) {
  for (const Ending ending : {Ending::kFinished, Ending::kStoppedEarly})
    if (summary.ending == name_of(ending)) return ending;
  return std::nullopt;
}

std::optional<MetricValues> metrics_in(const SummaryFile& summary,
                                       const std::string& prefix) {
  if (!summary.number(prefix + "loss")) return std::nullopt;
  const auto number = [&](const char* name) {
    return summary.number(prefix + name).value_or(MetricValues::kNan);
  };
  MetricValues values;
  values.loss = number("loss");
  values.accuracy = number("accuracy");
  values.precision = number("precision");
  values.recall = number("recall");
  values.f1 = number("f1");
  return values;
}

}  // namespace

StepTimes times_so_far(const RunTotals& totals) {
  StepTimes times = totals.times;
  times += totals.open_times;
  return times;
}

void write_summary(const TrainingSession& session, const TrainState& state,
                   const RunResult& result) {
  Row row{{"ending", name_of(result.ending)},
          {"ranks", session.group().size()},
          {"epochs", state.epoch},
          {"steps", state.step},
          {"rows_per_epoch", session.sets().train->size()}};
  row.emplace_back("skipped_steps", result.skipped_steps);
  if (result.train.rows > 0) append(row, "train_", result.train);
  if (result.validation) append(row, "validation_", *result.validation);
  if (result.test) {
    append(row, "test_", *result.test);
    row.emplace_back("tested_step", result.tested_step);
  }
  row.emplace_back("best_metric", session.config().early_stopping.metric);
  row.emplace_back("best", state.best);
  row.emplace_back("best_step", state.best_step);
  row.emplace_back("seconds", result.seconds);
  row.emplace_back("seconds_per_epoch", result.seconds_per_epoch);
  row.emplace_back("exchange_share", result.exchange_share);
  append(row, times_so_far(state.totals));
  write_file_atomically(result.folder / "summary.json", json_of(row) + "\n");
}

bool has_finished(const fs::path& folder, const RunConfig& config,
                  const TrainState& state) {
  const SummaryFile summary = parse_summary_file(summary_text(folder));
  const auto ending = ending_in(summary);
  if (!ending || summary.number("steps") != static_cast<double>(state.step))
    return false;
  if (*ending == Ending::kFinished)
    return state.epoch == config.epochs && state.batch == 0;
  const int patience = config.early_stopping.patience;
  return state.epoch == config.epochs ||
         (patience > 0 && state.epochs_since_best >= patience);
}

RunResult read_summary(const comm::Group& group, const fs::path& folder) {
  const SummaryFile summary = parse_summary_file(
      from_root(group, [&] { return summary_text(folder); }));
  RunResult result;
  result.folder = folder;
  result.ending = ending_in(summary).value_or(Ending::kFinished);
  result.train = metrics_in(summary, "train_").value_or(MetricValues{});
  result.validation = metrics_in(summary, "validation_");
  result.test = metrics_in(summary, "test_");
  // Steps are exact as doubles, and below 2^53 if the file is a run's.
  const double tested = summary.number("tested_step").value_or(-1);
  result.tested_step = std::abs(tested) < 0x1p53
                           ? static_cast<std::int64_t>(tested)
                           : std::int64_t{-1};
  result.seconds = summary.number("seconds").value_or(0);
  result.seconds_per_epoch = summary.number("seconds_per_epoch").value_or(0);
  result.exchange_share = summary.number("exchange_share").value_or(0);
  return result;
}

}  // namespace sheaf::train

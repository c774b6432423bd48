#include "sheaf/train/loop/run_output.hpp"

#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/files/run_folder.hpp"
#include "sheaf/train/setup/routes_file.hpp"

namespace sheaf::train {

namespace fs = std::filesystem;

RunOutput::RunOutput(const TrainingSession& session,
                     const TrainOptions& options, const TrainState& state,
                     TraceWriter* trace)
    : session_(session),
      folder_(open_folder(session, options, state)),
      checkpoints_(folder_ / "checkpoints", session.config().output.keep) {
  if (trace)
    trace->open(folder_ /
                (session.is_first()
                     ? "trace.json"
                     : concat("trace.rank", session.group().rank(), ".json")));
}

fs::path RunOutput::open_folder(const TrainingSession& session,
                                const TrainOptions& options,
                                const TrainState& state) {
  const OutputConfig& output = session.config().output;
  const fs::path result = from_root(session.group(), [&] {
    const fs::path folder = open_run_folder(
        {output.folder, options.config_name, options.is_resumed});
    if (options.is_resumed && !state.weights.empty()) {
      CheckpointFolder checkpoints(folder / "checkpoints", output.keep);
      checkpoints.set_aside_after(state.step);
      checkpoints.repair_links(state);
    }
    write_file_atomically(folder / "config.yaml",
                          print_config(session.config()));
    return folder.string();
  });
  // Other hosts need the folder, too, for per-rank files.
  fs::create_directories(result);
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

void RunOutput::say(const std::string& line) {
  if (journal_) journal_->say(line);
}

void RunOutput::tell(const BatchReport& report) {
  if (!journal_) return;
  if (report.times.has_factors) {
    const auto routes = strategy().routes();
    std::string names;
    for (const parallel::DadRoute& one : routes) names += one.route + "\n";
    if (std::exchange(told_routes_, names) != names)
      journal_->write_routes(routes);
    tell_plan();
    if (session_.config().dad.log_layers) journal_->add_layers(report, routes);
  }
  journal_->add(report);
}

void RunOutput::tell_plan() {
  if (!journal_) return;
  const parallel::FixedRoutes fixed = strategy().fixed_routes();
  if (fixed.empty()) return;
  const std::string text = routes_text(fixed);
  if (std::exchange(told_plan_, text) != text)
    write_file_atomically(folder_ / "dad_plan.json", text);
}

}  // namespace sheaf::train

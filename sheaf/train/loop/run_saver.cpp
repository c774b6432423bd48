#include "sheaf/train/loop/run_saver.hpp"

#include "sheaf/base/error.hpp"

namespace sheaf::train {

// The rows of the log reach the disk before the checkpoint, because --resume
// never writes those of earlier steps again.
void RunSaver::save(const Metrics* metrics) {
  run_.guard.check_weights();
  run_.session.learner().share_weights();
  complete_state(metrics);
  run_.session.learner().gather_exchange(run_.state);
  run_.output.save_routes();  // gather_exchange() may have decided the plan
  run_.output.sync();
  try {
    const TraceSpan span(run_.trace, "checkpoint", "train");
    write();
  } catch (const IoError& error) {
    throw IoError(concat(error.what(), last_complete()));
  }
  if (run_.trace) run_.trace->flush_if_grown();
}

void RunSaver::write() {
  const comm::Group& group = run_.session.group();
  Learner& learner = run_.session.learner();
  if (writes_shards()) {
    learner.save_share_to(run_.state, group.rank(), group.size());
    run_.output.checkpoints().save_shards(group, run_.state);
    return;
  }
  learner.save_to(run_.state);
  if (run_.session.is_first()) run_.output.checkpoints().save(run_.state);
}

// What the user can do when a checkpoint could not be saved.
std::string RunSaver::last_complete() {
  try {
    const auto names = run_.output.checkpoints().names();
    if (names.empty()) return "; there is no checkpoint yet";
    return concat("; the checkpoint ", names.back(),
                  " is complete: remove the cause, then continue with "
                  "--resume --output ",
                  run_.output.folder().string());
  } catch (const IoError&) {
    return "";
  }
}

void RunSaver::complete_state(const Metrics* metrics) {
  TrainState& state = run_.state;
  state.totals.seconds = run_.clock.seconds();
  state.totals.open_epoch_seconds =
      state.batch > 0 ? run_.clock.epoch_seconds() : 0;
  state.metric_sums.clear();
  if (!metrics) return;
  Metrics sum = *metrics;
  sum.sum_over(run_.session.group());
  state.metric_sums = sum.sums();
}

bool RunSaver::writes_shards() const {
  const RunConfig& config = run_.session.config();
  const std::string& wish = config.output.shards;
  return run_.session.group().size() > 1 &&
         (wish == "ranks" ||
          (wish == "auto" && splits_images(config.parallel.strategy)));
}

}  // namespace sheaf::train

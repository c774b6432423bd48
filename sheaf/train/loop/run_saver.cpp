#include "sheaf/train/loop/run_saver.hpp"

namespace sheaf::train {

void RunSaver::save(const Metrics* metrics) {
  const comm::Group& group = run_.session.group();
  Learner& learner = run_.session.learner();
  run_.guard.check_weights();
  learner.share_weights();
  complete_state(metrics);
  learner.gather_exchange(run_.state);
  run_.output.save_routes();  // gather_exchange() may have decided the plan
  const TraceSpan span(run_.trace, "checkpoint", "train");
  if (writes_shards()) {
    learner.save_share_to(run_.state, group.rank(), group.size());
    run_.output.checkpoints().save_shards(group, run_.state);
    return;
  }
  learner.save_to(run_.state);
  if (run_.session.is_first()) run_.output.checkpoints().save(run_.state);
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

#pragma once
// The keys of state.json.

#include "sheaf/train/checkpoint/state_file.hpp"

namespace sheaf::train {

// kShardedFormat is used for more than one shard.
inline constexpr int kFormat = 1;
inline constexpr int kShardedFormat = 2;
// The key of the checksums: of each file, and, last, of state.json itself
// without this value and without white space.
inline constexpr const char* kChecksum = "crc32c";

// The list of all numbers and names in state.json. The writer and the reader
// both visit it.
template <class Fields>
void walk_state(Fields& fields, StepTimes& times) {
  fields.add("data", times.data);
  fields.add("forward", times.forward);
  fields.add("backward", times.backward);
  fields.add("exchange", times.exchange);
  fields.add("exchange_busy", times.exchange_busy);
  fields.add("gradient", times.gradient);
  fields.add("has_factors", times.has_factors);
  fields.add("optimizer", times.optimizer);
  fields.add("batch", times.batch);
  fields.add("bytes", times.bytes);
}

template <class Fields>
void walk_state(Fields& fields, MetricValues& values) {
  fields.add("rows", values.rows);
  fields.add("loss", values.loss);
  fields.add("accuracy", values.accuracy);
  fields.add("precision", values.precision);
  fields.add("recall", values.recall);
  fields.add("f1", values.f1);
}

template <class Fields>
void walk_state(Fields& fields, RunTotals& totals) {
  fields.add("seconds", totals.seconds);
  fields.add("epochs", totals.epochs);
  fields.add("epoch_seconds", totals.epoch_seconds);
  fields.add("open_epoch_seconds", totals.open_epoch_seconds);
  fields.add("times", totals.times);
  fields.add("open_times", totals.open_times);
  fields.add("skipped_steps", totals.skipped_steps);
  fields.add("open_skipped", totals.open_skipped);
  fields.add("train", totals.train);
  fields.add("validation", totals.validation);
}

template <class Fields>
void walk_state(Fields& fields, RunState& state) {
  fields.add("step", state.step);
  fields.add("epoch", state.epoch);
  fields.add("batch", state.batch);
  fields.add_new("pretrained_stages", state.pretrained_stages);
  fields.add("seed", state.seed);
  fields.add("global_batch", state.global_batch);
  fields.add_new("examples", state.examples);
  fields.add_new("class_names", state.class_names);
  fields.add("best", state.best);
  fields.add("best_step", state.best_step);
  fields.add_new("best_metric", state.best_metric);
  fields.add("epochs_since_best", state.epochs_since_best);
  fields.add("has_stopped_early", state.has_stopped_early);
  fields.add_new("totals", state.totals);
}

}  // namespace sheaf::train

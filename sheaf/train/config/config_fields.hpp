#pragma once
// The list of all config keys. The reader, the printer and the comparison of
// configs visit it.

#include <array>
#include <limits>
#include <string>
#include <tuple>

#include "sheaf/train/config/config.hpp"

namespace sheaf::train {

inline constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// Valid range of a number; `is_open` excludes the lower bound.
struct Range {
  double low = 0;
  double high = kNoLimit;
  bool is_open = false;
};
inline constexpr Range kPositive{.is_open = true};
inline constexpr Range kFraction{0, 1};
// Products of two counts fit into 64 bits.
inline constexpr Range kFromOne{1, 1e9};

// Keys and sections that do not change what the steps of a run compute, so a
// run may be resumed with different values. (A different number of threads
// changes only the order of summation, as a different number of ranks does.)
// All other keys change the result. `epochs` sets the number of steps; it
// changes the result if the learning rate depends on that number (schedule
// cosine).
inline constexpr std::array kResumableKeys{
    "data.workers",   "epochs", "threads",
    "dad.log_layers", "output", "check_weights_every",
    "on_non_finite"};

// For visitors that treat a list of numbers as a list of texts.
inline std::vector<std::string> number_texts(
    const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> texts;
  for (const std::int64_t number : numbers)
    texts.push_back(std::to_string(number));
  return texts;
}

template <class Visitor>
void visit(Visitor& visitor, DataConfig& data) {
  visitor.field("name", data.name);
  visitor.field("folder", data.folder);
  visitor.items("transforms", data.transforms);
  visitor.items("evaluation_transforms", data.evaluation_transforms);
  visitor.field("validation", data.validation, Range{});
  visitor.field("limit", data.limit, Range{});
  visitor.choice("sites", data.sites, {"shared", "by_class"});
  visitor.field("workers", data.workers, Range{0, 64});
  visitor.arguments("arguments", data.arguments);
}

template <class Visitor>
void visit(Visitor& visitor, NetworkConfig& network) {
  visitor.field("name", network.name);
  visitor.arguments("arguments", network.arguments);
  visitor.items("layers", network.layers);
}

template <class Visitor>
void visit(Visitor& visitor, OptimizerConfig& optimizer) {
  visitor.choice("name", optimizer.name, {"sgd", "adam", "adamw"});
  visitor.field("learning_rate", optimizer.learning_rate, kPositive);
  visitor.field("weight_decay", optimizer.weight_decay, Range{});
  visitor.field("momentum", optimizer.momentum, Range{});
  visitor.field("nesterov", optimizer.nesterov);
  visitor.field("beta1", optimizer.beta1, kFraction);
  visitor.field("beta2", optimizer.beta2, kFraction);
  visitor.field("epsilon", optimizer.epsilon, kPositive);
}

template <class Visitor>
void visit(Visitor& visitor, ScheduleConfig& schedule) {
  visitor.choice("name", schedule.name, {"constant", "step", "cosine"});
  visitor.field("every", schedule.every, kPositive);
  visitor.field("factor", schedule.factor, kPositive);
  visitor.field("final_factor", schedule.final_factor, kFraction);
  visitor.field("warmup_epochs", schedule.warmup_epochs, Range{});
  visitor.field("warmup_factor", schedule.warmup_factor, kFraction);
}

template <class Visitor>
void visit(Visitor& visitor, ParallelConfig& parallel) {
  std::string strategy(name_of(parallel.strategy));
  std::apply(
      [&](auto... names) { visitor.choice("strategy", strategy, {names...}); },
      kStrategyNames);
  parallel.strategy = parse_strategy(strategy);
  visitor.field("grid", parallel.grid);
  visitor.field("bucket_mb", parallel.bucket_mb, kPositive);
  visitor.choice("compression", parallel.compression,
                 {"none", "f16", "bf16", "powersgd"});
  visitor.field("powersgd_rank", parallel.powersgd_rank, kFromOne);
  visitor.field("sync_batchnorm", parallel.sync_batchnorm);
  visitor.field("find_unused", parallel.find_unused);
}

template <class Visitor>
void visit(Visitor& visitor, DadConfig& dad) {
  visitor.choice("where", dad.where, {"all_gather", "star"});
  visitor.field("two_way", dad.two_way);
  visitor.field("rank", dad.rank, kFromOne);
  visitor.field("tolerance", dad.tolerance, kFraction);
  visitor.field("feedback_rows", dad.feedback_rows, Range{});
  visitor.field("power_iterations", dad.power_iterations, Range{});
  visitor.field("low_rank", dad.low_rank);
  visitor.field("trials", dad.trials);
  visitor.field("plan", dad.plan);
  visitor.choice("wire", dad.wire, {"none", "f16", "bf16"});
  visitor.choice("zeros", dad.zeros, {"auto", "send", "skip"});
  visitor.choice("first_layer", dad.first_layer, {"factors", "gradient"});
  visitor.arguments("routes", dad.routes);
  visitor.field("log_layers", dad.log_layers);
}

template <class Visitor>
void visit(Visitor& visitor, PretrainingConfig& pretraining) {
  visitor.field("epochs", pretraining.epochs, Range{});
  visitor.field("learning_rate", pretraining.learning_rate, kPositive);
  visitor.field("sparsity", pretraining.sparsity, Range{});
  visitor.choice("cost", pretraining.cost, {"scaled", "plain"});
  visitor.field("gain", pretraining.gain, kPositive);
  visitor.field("center", pretraining.center);
  visitor.choice("update", pretraining.update, {"summed", "two_step"});
  visitor.field("classifier_epochs", pretraining.classifier_epochs, Range{});
  visitor.field("normalize_filters", pretraining.normalize_filters);
}

template <class Visitor>
void visit(Visitor& visitor, OutputConfig& output) {
  visitor.field("folder", output.folder);
  visitor.field("log_every", output.log_every, kFromOne);
  visitor.field("trace", output.trace);
  visitor.field("tensorboard", output.tensorboard);
  visitor.field("checkpoint_every", output.checkpoint_every, Range{});
  visitor.field("keep", output.keep, kFromOne);
  visitor.choice("shards", output.shards, {"auto", "one", "ranks"});
}

template <class Visitor>
void visit(Visitor& visitor, EarlyStoppingConfig& stopping) {
  visitor.choice("metric", stopping.metric,
                 {"loss", "accuracy", "precision", "recall", "f1"});
  visitor.field("patience", stopping.patience, Range{});
  visitor.field("min_change", stopping.min_change, Range{});
}

template <class Visitor>
void visit(Visitor& visitor, RunConfig& config) {
  visitor.section("data", config.data);
  visitor.section("network", config.network);
  visitor.choice("loss", config.loss, {"cross_entropy", "nll", "mse"});
  visitor.section("optimizer", config.optimizer);
  visitor.section("schedule", config.schedule);
  visitor.field("epochs", config.epochs, kFromOne);
  visitor.field("global_batch", config.global_batch, kFromOne);
  visitor.numbers("shares", config.shares, Range{0, 1 << 30});
  visitor.field("accumulate", config.accumulate, kFromOne);
  visitor.field("clip_norm", config.clip_norm, Range{});
  visitor.choice("on_non_finite", config.on_non_finite,
                 {"stop", "skip", "ignore"});
  visitor.field("seed", config.seed, Range{});
  visitor.choice("precision", config.precision, {"f32", "f64", "bf16"});
  visitor.field("plan", config.plan);
  visitor.choices("device", config.devices, {"cpu", "cuda"});
  visitor.numbers("threads", config.threads, Range{0, 4096});
  visitor.section("parallel", config.parallel);
  visitor.section("dad", config.dad);
  visitor.section("pretraining", config.pretraining);
  visitor.section("output", config.output);
  visitor.section("early_stopping", config.early_stopping);
  visitor.field("check_weights_every", config.check_weights_every, Range{});
}

}  // namespace sheaf::train

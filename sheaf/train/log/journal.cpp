#include "sheaf/train/log/journal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>

#include "sheaf/base/files.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/train/files/durable.hpp"

namespace sheaf::train {
namespace {

constexpr const char* kMetrics[] = {"loss", "accuracy", "precision", "recall",
                                    "f1"};

// A name that is not UTF-8 must not end a training.
constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;

std::string duration_text(double ms) {
  return format_duration(
      std::chrono::nanoseconds(static_cast<std::int64_t>(ms * 1e6)));
}

Scalars scalars_of(const std::string& prefix, const MetricValues& values) {
  Scalars scalars;
  for (const char* name : kMetrics)
    scalars.emplace_back(prefix + "/" + name, values.get(name));
  return scalars;
}

// Metrics for an epoch's line, which must fit in 80 columns.
std::string brief(const MetricValues& values, std::string_view loss_name,
                  std::string_view accuracy_name) {
  std::string text = fmt::format("  {} {:.4f}", loss_name, values.loss);
  if (!std::isnan(values.accuracy))
    text += fmt::format("  {}{:.2f} %", accuracy_name, 100 * values.accuracy);
  return text;
}

}  // namespace

std::string describe(const MetricValues& values) {
  std::string text = fmt::format("loss {:.4f}", values.loss);
  if (!std::isnan(values.accuracy))
    text += fmt::format("  accuracy {:.2f} %  f1 {:.4f}", 100 * values.accuracy,
                        values.f1);
  return text;
}

void append(Row& row, const std::string& prefix, const MetricValues& values) {
  for (const char* name : kMetrics)
    if (name == kMetrics[0] || !std::isnan(values.get(name)))
      row.emplace_back(prefix + name, values.get(name));
}

void append(Row& row, const StepTimes& times) {
  row.emplace_back("data_duration", times.data);
  row.emplace_back("forward_duration", times.forward);
  row.emplace_back("backward_duration", times.backward);
  row.emplace_back("exchange_duration", times.exchange);
  row.emplace_back("exchange_busy", times.exchange_busy);
  if (times.has_factors) {
    row.emplace_back("gradient_duration", times.gradient);
    row.emplace_back("dad_backward_duration", times.exchange + times.gradient);
  }
  row.emplace_back("optimizer_duration", times.optimizer);
  row.emplace_back("batch_duration", times.batch);
  row.emplace_back("bytes_sent", times.bytes);
}

Journal::Journal(const RunConfig& config, const JournalOptions& options)
    : config_(config),
      options_(options),
      log_(options.folder / "log.jsonl", options.next_step) {
  if (config.output.tensorboard) events_.emplace(options.folder);
  if (options.progress) options.progress->start_at(done(options.next_step));
}

void Journal::add(const BatchReport& report) {
  const double loss = report.totals.loss / report.totals.rows;
  Row row{{"kind", "batch"},
          {"epoch", report.epoch},
          {"batch", report.batch},
          {"step", report.step},
          {"rows", static_cast<std::int64_t>(report.totals.rows)},
          {"loss", loss}};
  if (report.has_classes)
    row.emplace_back("accuracy", report.totals.hits / report.totals.rows);
  row.emplace_back("learning_rate", report.learning_rate);
  if (report.is_skipped) row.emplace_back("is_skipped", true);
  append(row, report.times);
  const bool is_logged = (report.step + 1) % config_.output.log_every == 0;
  log_.add(row, /*flush=*/is_logged || report.is_skipped);
  if (report.is_skipped)
    say(fmt::format("step {} skipped: its loss or gradients are not finite",
                    report.step));
  if (events_ && is_logged && !report.is_skipped)
    events_->add(report.step, {{"batch/loss", loss},
                               {"batch/learning_rate", report.learning_rate},
                               {"batch/duration_ms", report.times.batch}});
  rows_since_line_ += report.totals.rows;
  if (options_.progress || is_logged) show_step(report, loss);
}

double Journal::done(std::int64_t steps) const {
  return static_cast<double>(std::max<std::int64_t>(steps, 0)) /
         static_cast<double>(config_.epochs * options_.steps_per_epoch);
}

void Journal::show_step(const BatchReport& report, double loss) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds =
      std::chrono::duration<double>(now - last_line_).count();
  if (seconds > 0.5 || !options_.progress) {
    rows_per_second_ = rows_since_line_ / seconds;
    rows_since_line_ = 0;
    last_line_ = now;
  }
  std::string text = fmt::format("epoch {}/{}  loss {:.4f}", report.epoch + 1,
                                 config_.epochs, loss);
  if (rows_per_second_ > 0)
    text += fmt::format("  {:.0f} rows/s", rows_per_second_);
  if (options_.progress) {
    options_.progress->update(done(report.step + 1), text);
  } else {
    say(fmt::format("{}  step {}/{}", text, report.batch + 1,
                    options_.steps_per_epoch));
  }
}

void Journal::add(const EpochReport& report) {
  Row row{{"kind", "epoch"}, {"epoch", report.epoch}, {"step", report.step}};
  append(row, "train_", report.train);
  if (report.validation) append(row, "validation_", *report.validation);
  row.emplace_back("is_best", report.is_best);
  if (report.skipped_steps > 0)
    row.emplace_back("skipped_steps", report.skipped_steps);
  row.emplace_back("learning_rate", report.learning_rate);
  row.emplace_back("rows", report.train.rows);
  row.emplace_back("epoch_duration", report.duration);
  append(row, report.times);
  log_.add(row);
  if (events_) {
    events_->add(report.step, scalars_of("train", report.train));
    if (report.validation)
      events_->add(report.step, scalars_of("validation", *report.validation));
  }
  std::string line =
      fmt::format("epoch {}/{}", report.epoch + 1, config_.epochs) +
      brief(report.train, "loss", report.validation ? "" : "accuracy ");
  if (report.validation) line += brief(*report.validation, "validation", "");
  say(line + "  " + duration_text(report.duration));
}

std::string Journal::describe(const PretrainingReport& report) const {
  const std::string place =
      fmt::format("pre-training {}/{}, epoch {}/{}", report.stage + 1,
                  report.stages, report.epoch + 1, config_.pretraining.epochs);
  if (report.is_skipped)
    return place + "  skipped: cost or gradients not finite";
  return fmt::format("{}  reconstruction {:.4g}  sparsity {:.4g}", place,
                     report.reconstruction, report.sparsity);
}

void Journal::add(const PretrainingReport& report) {
  const bool is_logged = (report.batch + 1) % config_.output.log_every == 0;
  Row row{{"kind", "pretrain"},
          {"stage", report.stage},
          {"epoch", report.epoch},
          {"batch", report.batch},
          {"step", report.step},
          {"rows", report.rows},
          {"reconstruction", report.reconstruction},
          {"sparsity", report.sparsity},
          {"data_duration", report.data},
          {"batch_duration", report.duration}};
  if (report.is_skipped) row.emplace_back("is_skipped", true);
  log_.add(row, /*flush=*/is_logged || report.is_skipped);
  if (options_.progress)
    options_.progress->update(0, describe(report));
  else if (is_logged)
    say(fmt::format("{}  step {}/{}", describe(report), report.batch + 1,
                    options_.steps_per_epoch));
}

void Journal::end_epoch(const PretrainingReport& report) {
  say(describe(report) + "  " + duration_text(report.duration));
}

void Journal::add_layers(const BatchReport& report,
                         const std::vector<parallel::DadRoute>& routes) {
  auto layers = nlohmann::ordered_json::array();
  for (const parallel::DadRoute& route : routes) {
    if (route.last.rows == 0) continue;
    layers.push_back({{"name", route.name},
                      {"route", route.route},
                      {"bytes", route.last.sent},
                      {"received", route.last.received},
                      {"rank", route.last.own_rows},
                      {"exchange_ms", route.last.exchange_ms},
                      {"gradient_ms", route.last.gradient_ms}});
  }
  const nlohmann::ordered_json row{{"kind", "layers"},
                                   {"epoch", report.epoch},
                                   {"batch", report.batch},
                                   {"step", report.step},
                                   {"layers", layers}};
  log_.add_line(row.dump(-1, ' ', false, kReplace), /*flush=*/false);
}

void Journal::write_routes(const std::vector<parallel::DadRoute>& routes) {
  auto layers = nlohmann::ordered_json::array();
  for (const parallel::DadRoute& route : routes)
    layers.push_back({{"name", route.name},
                      {"route", route.route},
                      {"reason", route.reason},
                      {"in", route.in},
                      {"out", route.out}});
  write_file_atomically(
      options_.folder / "routes.json",
      nlohmann::ordered_json{{"layers", layers}}.dump(2, ' ', false, kReplace) +
          "\n");
}

void Journal::add_test(std::int64_t step, const MetricValues& values) {
  Row row{{"kind", "test"}, {"step", step}, {"rows", values.rows}};
  append(row, "test_", values);
  log_.add(row);
  if (events_) events_->add(step, scalars_of("test", values));
}

void Journal::sync() {
  log_.sync();
  if (events_) sync_file(events_->path());
}

void Journal::say(const std::string& line) {
  if (options_.progress) options_.progress->clear();
  if (options_.out) *options_.out << line << std::endl;
}

}  // namespace sheaf::train

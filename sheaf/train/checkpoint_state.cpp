#include "sheaf/train/checkpoint_state.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/train/crc32c.hpp"

namespace sheaf::train {
namespace {

using nlohmann::ordered_json;

// The second is that of several shards.
constexpr int kFormat = 1;
constexpr int kShardedFormat = 2;
constexpr const char* kChecksum = "crc32c";
// With the optimiser's state, for it is a large matrix where there are many
// classes.
constexpr const char* kMetricSums = "metric_sums";
constexpr std::string_view kExchange = "exchange/";

ordered_json number_or_null(double value) {
  if (!std::isfinite(value)) return nullptr;
  return value;
}

double number_in(const ordered_json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN()
                        : json.get<double>();
}

ordered_json json_of(const StepTimes& times) {
  return {{"data", times.data},
          {"forward", times.forward},
          {"backward", times.backward},
          {"exchange", times.exchange},
          {"exchange_busy", times.exchange_busy},
          {"gradient", times.gradient},
          {"has_factors", times.has_factors},
          {"optimizer", times.optimizer},
          {"batch", times.batch},
          {"bytes", times.bytes}};
}

StepTimes times_in(const ordered_json& json) {
  StepTimes times;
  times.data = json.at("data");
  times.forward = json.at("forward");
  times.backward = json.at("backward");
  times.exchange = json.at("exchange");
  times.exchange_busy = json.at("exchange_busy");
  times.gradient = json.at("gradient");
  times.has_factors = json.at("has_factors");
  times.optimizer = json.at("optimizer");
  times.batch = json.at("batch");
  times.bytes = json.at("bytes");
  return times;
}

ordered_json json_of(const MetricValues& values) {
  return {{"rows", values.rows},
          {"loss", number_or_null(values.loss)},
          {"accuracy", number_or_null(values.accuracy)},
          {"precision", number_or_null(values.precision)},
          {"recall", number_or_null(values.recall)},
          {"f1", number_or_null(values.f1)}};
}

MetricValues metrics_in(const ordered_json& json) {
  MetricValues values;
  values.rows = json.at("rows");
  values.loss = number_in(json.at("loss"));
  values.accuracy = number_in(json.at("accuracy"));
  values.precision = number_in(json.at("precision"));
  values.recall = number_in(json.at("recall"));
  values.f1 = number_in(json.at("f1"));
  return values;
}

ordered_json json_of(const RunTotals& totals) {
  return {{"seconds", totals.seconds},
          {"epochs", totals.epochs},
          {"epoch_seconds", totals.epoch_seconds},
          {"open_epoch_seconds", totals.open_epoch_seconds},
          {"times", json_of(totals.times)},
          {"open_times", json_of(totals.open_times)},
          {"skipped_steps", totals.skipped_steps},
          {"open_skipped", totals.open_skipped},
          {"train", json_of(totals.train)},
          {"validation", json_of(totals.validation)}};
}

RunTotals totals_in(const ordered_json& json) {
  RunTotals totals;
  totals.seconds = json.at("seconds");
  totals.epochs = json.at("epochs");
  totals.epoch_seconds = json.at("epoch_seconds");
  totals.open_epoch_seconds = json.at("open_epoch_seconds");
  totals.times = times_in(json.at("times"));
  totals.open_times = times_in(json.at("open_times"));
  totals.skipped_steps = json.at("skipped_steps");
  totals.open_skipped = json.at("open_skipped");
  totals.train = metrics_in(json.at("train"));
  totals.validation = metrics_in(json.at("validation"));
  return totals;
}

// A name that is no UTF-8, which JSON cannot hold, becomes a list of bytes:
// names of folders may be anything.
ordered_json json_of_name(const std::string& name) {
  try {
    const ordered_json json = name;
    (void)json.dump();
    return json;
  } catch (const ordered_json::type_error&) {
    return std::vector<std::uint8_t>(name.begin(), name.end());
  }
}

std::string name_in(const ordered_json& json) {
  if (json.is_string()) return json;
  const std::vector<std::uint8_t> bytes = json;
  return {bytes.begin(), bytes.end()};
}

ordered_json json_of_names(const std::vector<std::string>& names) {
  ordered_json json = ordered_json::array();
  for (const std::string& name : names) json.push_back(json_of_name(name));
  return json;
}

std::vector<std::string> names_in(const ordered_json& json) {
  std::vector<std::string> names;
  for (const ordered_json& name : json) names.push_back(name_in(name));
  return names;
}

ordered_json numbers_of(const TrainState& state) {
  ordered_json best = nullptr;
  if (!std::isnan(state.best)) best = state.best;
  return {{"step", state.step},
          {"epoch", state.epoch},
          {"batch", state.batch},
          {"pretrained_stages", state.pretrained_stages},
          {"seed", state.seed},
          {"global_batch", state.global_batch},
          {"class_names", json_of_names(state.class_names)},
          {"best", best},
          {"best_step", state.best_step},
          {"epochs_since_best", state.epochs_since_best},
          {"has_stopped_early", state.has_stopped_early},
          {"totals", json_of(state.totals)}};
}

TrainState state_of(const ordered_json& json) {
  TrainState state;
  state.step = json.at("step");
  state.epoch = json.at("epoch");
  state.batch = json.at("batch");
  state.pretrained_stages = json.value("pretrained_stages", 0);
  state.seed = json.at("seed");
  state.global_batch = json.at("global_batch");
  // Checkpoints of earlier versions have none.
  state.class_names =
      names_in(json.value("class_names", ordered_json::array()));
  if (!json.at("best").is_null()) state.best = json.at("best");
  state.best_step = json.at("best_step");
  state.epochs_since_best = json.at("epochs_since_best");
  state.has_stopped_early = json.at("has_stopped_early");
  // Checkpoints of earlier versions have none.
  if (json.contains("totals")) state.totals = totals_in(json.at("totals"));
  return state;
}

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw IoError(concat("the checkpoint ", name, " is not good: ", why,
                       "; an older one may be"));
}

// The text's own checksum is that of the text without it.
ordered_json checked_json(const std::string& text, const std::string& name) {
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains(kChecksum))
    fail(name, "state.json is no state, or truncated");
  const ordered_json checksum = json[kChecksum];
  json.erase(kChecksum);
  if (checksum != crc32c(json.dump()))
    fail(name, "the checksum of state.json is wrong");
  const int format = json.value("format", 0);
  if (format != kFormat && format != kShardedFormat)
    fail(name, concat("its format is ", format, ", this program knows ",
                      kFormat, " and ", kShardedFormat));
  return json;
}

CheckpointFile file_in(const ordered_json& json, std::string name) {
  const ordered_json& file = json.at(name);
  return {std::move(name), file.at("bytes"), file.at(kChecksum)};
}

}  // namespace

CheckpointFile describe(std::string name, std::string_view bytes) {
  return {std::move(name), bytes.size(), crc32c(bytes)};
}

std::string shard_name(std::string_view kind, int shard, int shards) {
  if (shards == 1) return fmt::format("{}.pt", kind);
  return fmt::format("{}-{:05}-of-{:05}.pt", kind, shard, shards);
}

std::string state_text(const TrainState& state,
                       const std::vector<CheckpointFile>& files) {
  const std::size_t shards = files.size() / 2;
  ordered_json json{{"format", shards == 1 ? kFormat : kShardedFormat}};
  json.update(numbers_of(state));
  if (shards > 1) json["shards"] = shards;
  for (const CheckpointFile& file : files)
    json[file.name] = {{"bytes", file.bytes}, {kChecksum, file.checksum}};
  json[kChecksum] = crc32c(json.dump());
  return json.dump(2) + "\n";
}

KnownState parse_state(const std::string& text, const std::string& name) {
  const ordered_json json = checked_json(text, name);
  const int shards = json.value("shards", 1);
  KnownState result{state_of(json), {}};
  for (const char* kind : {"weights", "optimizer"})
    for (int i = 0; i < shards; ++i)
      result.files.push_back(file_in(json, shard_name(kind, i, shards)));
  return result;
}

void check_file(const CheckpointFile& file, std::string_view bytes,
                const std::string& name) {
  if (bytes.size() != file.bytes)
    fail(name,
         concat(file.name, " has ", bytes.size(), " bytes, not ", file.bytes));
  if (crc32c(bytes) != file.checksum)
    fail(name, concat("the checksum of ", file.name, " is wrong"));
}

NamedTensors with_rest(const TrainState& state) {
  NamedTensors tensors = state.optimizer;
  for (const auto& [name, tensor] : state.exchange)
    tensors.emplace_back(concat(kExchange, name), tensor);
  if (!state.metric_sums.empty())
    tensors.emplace_back(kMetricSums,
                         torch::tensor(state.metric_sums, torch::kDouble));
  return tensors;
}

void take_rest(TrainState& state) {
  NamedTensors all = std::move(state.optimizer);
  state.optimizer.clear();
  for (auto& [name, tensor] : all) {
    if (name == kMetricSums) {
      const torch::Tensor sums = tensor.contiguous();
      const auto* data = sums.data_ptr<double>();
      state.metric_sums.assign(data, data + sums.numel());
    } else if (name.rfind(kExchange, 0) == 0) {
      state.exchange.emplace_back(name.substr(kExchange.size()), tensor);
    } else {
      state.optimizer.emplace_back(name, tensor);
    }
  }
}

}  // namespace sheaf::train

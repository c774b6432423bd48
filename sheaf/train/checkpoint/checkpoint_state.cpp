#include "sheaf/train/checkpoint/checkpoint_state.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/train/files/crc32c.hpp"

namespace sheaf::train {
namespace {

using nlohmann::ordered_json;

// kShardedFormat is used for more than one shard.
constexpr int kFormat = 1;
constexpr int kShardedFormat = 2;
constexpr const char* kChecksum = "crc32c";
// Stored with the optimizer state because it is a large matrix if there are
// many classes.
constexpr const char* kMetricSums = "metric_sums";
constexpr std::string_view kExchange = "exchange/";

// A name that is not valid UTF-8, which JSON cannot hold, becomes a list of
// bytes: folder names may contain any bytes.
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

// The list of all numbers and names in state.json. The writer and the reader
// both visit it.
template <class Fields>
void walk(Fields& fields, StepTimes& times) {
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
void walk(Fields& fields, MetricValues& values) {
  fields.add("rows", values.rows);
  fields.add("loss", values.loss);
  fields.add("accuracy", values.accuracy);
  fields.add("precision", values.precision);
  fields.add("recall", values.recall);
  fields.add("f1", values.f1);
}

template <class Fields>
void walk(Fields& fields, RunTotals& totals) {
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
void walk(Fields& fields, TrainState& state) {
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

class FieldWriter {
 public:
  template <class T>
  void add(const char* name, T& value) {
    json_[name] = json_for(value);
  }
  template <class T>
  void add_new(const char* name, T& value) {
    add(name, value);
  }
  const ordered_json& json() const { return json_; }

 private:
  static ordered_json json_for(std::int64_t value) { return value; }
  static ordered_json json_for(bool value) { return value; }
  // JSON has no non-finite numbers.
  static ordered_json json_for(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json();
  }
  static ordered_json json_for(std::string& name) { return json_of_name(name); }
  static ordered_json json_for(std::vector<std::string>& names) {
    return json_of_names(names);
  }
  template <class Struct>
  static ordered_json json_for(Struct& value) {
    FieldWriter inner;
    walk(inner, value);
    return inner.json_;
  }

  ordered_json json_ = ordered_json::object();
};

class FieldReader {
 public:
  explicit FieldReader(const ordered_json& json) : json_(json) {}

  template <class T>
  void add(const char* name, T& value) {
    read(json_.at(name), value);
  }
  // Absent in checkpoints of earlier versions.
  template <class T>
  void add_new(const char* name, T& value) {
    if (json_.contains(name)) add(name, value);
  }

 private:
  static void read(const ordered_json& json, std::int64_t& value) {
    value = json;
  }
  static void read(const ordered_json& json, bool& value) { value = json; }
  static void read(const ordered_json& json, double& value) {
    value = json.is_null() ? std::numeric_limits<double>::quiet_NaN()
                           : json.get<double>();
  }
  static void read(const ordered_json& json, std::string& name) {
    name = name_in(json);
  }
  static void read(const ordered_json& json, std::vector<std::string>& names) {
    names = names_in(json);
  }
  template <class Struct>
  static void read(const ordered_json& json, Struct& value) {
    FieldReader inner(json);
    walk(inner, value);
  }

  const ordered_json& json_;
};

ordered_json numbers_of(TrainState state) {
  FieldWriter writer;
  walk(writer, state);
  return writer.json();
}

TrainState state_of(const ordered_json& json) {
  TrainState state;
  FieldReader reader(json);
  walk(reader, state);
  return state;
}

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw IoError(concat("the checkpoint ", name, " is invalid: ", why,
                       "; try an older one"));
}

// The checksum covers the text without the checksum itself.
ordered_json checked_json(const std::string& text, const std::string& name) {
  ordered_json json = ordered_json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains(kChecksum))
    fail(name, "state.json is truncated or not a checkpoint state");
  const ordered_json checksum = json[kChecksum];
  json.erase(kChecksum);
  if (checksum != crc32c(json.dump()))
    fail(name, "the checksum of state.json is wrong");
  const int format = json.value("format", 0);
  if (format != kFormat && format != kShardedFormat)
    fail(name, concat("its format is ", format, "; this version reads ",
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

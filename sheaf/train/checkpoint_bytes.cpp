#include <cmath>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/collectives.hpp"
#include "sheaf/train/checkpoint.hpp"
#include "sheaf/train/crc32c.hpp"

namespace sheaf::train {
namespace {

using nlohmann::ordered_json;

constexpr int kFormat = 1;
constexpr const char* kChecksum = "crc32c";

using Dictionary = c10::Dict<std::string, torch::Tensor>;

std::string encode_tensors(const NamedTensors& tensors) {
  Dictionary dictionary;
  for (const auto& [name, tensor] : tensors)
    dictionary.insert(name, tensor.detach().to(torch::kCPU));
  const std::vector<char> bytes = torch::pickle_save(dictionary);
  return {bytes.begin(), bytes.end()};
}

NamedTensors decode_tensors(const std::string& bytes) {
  const c10::IValue value =
      torch::pickle_load(std::vector<char>(bytes.begin(), bytes.end()));
  NamedTensors tensors;
  for (const auto& entry : value.toGenericDict())
    tensors.emplace_back(entry.key().toStringRef(), entry.value().toTensor());
  return tensors;
}

ordered_json describe(const std::string& bytes) {
  return {{"bytes", bytes.size()}, {kChecksum, crc32c(bytes)}};
}

ordered_json numbers_of(const TrainState& state) {
  ordered_json best = nullptr;
  if (!std::isnan(state.best)) best = state.best;
  return {{"format", kFormat},
          {"step", state.step},
          {"epoch", state.epoch},
          {"batch", state.batch},
          {"seed", state.seed},
          {"global_batch", state.global_batch},
          {"best", best},
          {"best_step", state.best_step},
          {"epochs_since_best", state.epochs_since_best},
          {"has_stopped_early", state.has_stopped_early}};
}

TrainState state_of(const ordered_json& json) {
  TrainState state;
  state.step = json.at("step");
  state.epoch = json.at("epoch");
  state.batch = json.at("batch");
  state.seed = json.at("seed");
  state.global_batch = json.at("global_batch");
  if (!json.at("best").is_null()) state.best = json.at("best");
  state.best_step = json.at("best_step");
  state.epochs_since_best = json.at("epochs_since_best");
  state.has_stopped_early = json.at("has_stopped_early");
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
  if (json.value("format", 0) != kFormat)
    fail(name, concat("its format is ", json.value("format", 0),
                      ", this program knows ", kFormat));
  return json;
}

void check_part(const ordered_json& json, const char* file,
                const std::string& bytes, const std::string& name) {
  const std::size_t wanted = json.at(file).at("bytes");
  if (bytes.size() != wanted)
    fail(name, concat(file, " has ", bytes.size(), " bytes, not ", wanted));
  if (json.at(file).at(kChecksum) != crc32c(bytes))
    fail(name, concat("the checksum of ", file, " is wrong"));
}

void broadcast_text(const comm::Group& group, std::string& text) {
  std::vector<std::int64_t> size{static_cast<std::int64_t>(text.size())};
  comm::broadcast(group, size, {.name = "checkpoint size"});
  text.resize(static_cast<std::size_t>(size[0]));
  comm::broadcast(group, comm::Buffer(text.data(), text.size(), DType::kU8),
                  {.name = "checkpoint"});
}

}  // namespace

CheckpointBytes encode(const TrainState& state) {
  CheckpointBytes bytes;
  bytes.weights = encode_tensors(state.weights);
  bytes.optimizer = encode_tensors(state.optimizer);
  ordered_json json = numbers_of(state);
  json["weights.pt"] = describe(bytes.weights);
  json["optimizer.pt"] = describe(bytes.optimizer);
  json[kChecksum] = crc32c(json.dump());
  bytes.state = json.dump(2) + "\n";
  return bytes;
}

TrainState decode(const CheckpointBytes& bytes, const std::string& name) {
  const ordered_json json = checked_json(bytes.state, name);
  check_part(json, "weights.pt", bytes.weights, name);
  check_part(json, "optimizer.pt", bytes.optimizer, name);
  try {
    TrainState state = state_of(json);
    state.weights = decode_tensors(bytes.weights);
    state.optimizer = decode_tensors(bytes.optimizer);
    return state;
  } catch (const std::exception& error) {
    fail(name, error.what());
  }
}

std::optional<TrainState> share_state(const comm::Group& group,
                                      const std::optional<TrainState>& state) {
  CheckpointBytes bytes;
  if (group.rank() == 0 && state) bytes = encode(*state);
  for (std::string* part : {&bytes.state, &bytes.weights, &bytes.optimizer})
    broadcast_text(group, *part);
  if (bytes.state.empty()) return std::nullopt;
  return decode(bytes, "that rank 0 has sent");
}

}  // namespace sheaf::train

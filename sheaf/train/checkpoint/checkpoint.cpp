#include "sheaf/train/checkpoint/checkpoint.hpp"

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/train/files/durable.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

// Stored with the optimizer state because it is a large matrix if there are
// many classes.
constexpr const char* kMetricSums = "metric_sums";
constexpr std::string_view kExchange = "exchange/";

// Writes the tensors durably and describes the resulting file.
CheckpointFile write_tensors_to(const fs::path& file,
                                const NamedTensors& tensors) {
  tensor::save_state_dict(file, tensors);
  const FileSummary written = summarize(file);
  return {file.filename().string(), written.bytes, written.checksum};
}

void append_file(NamedTensors& tensors, const fs::path& file) {
  for (auto& entry : tensor::load_state_dict_file(file))
    tensors.push_back(std::move(entry));
}

TrainState load_from(const fs::path& place) {
  const KnownState known = verify_checkpoint(place);
  TrainState state{known.numbers};
  const std::size_t shards = known.files.size() / 2;
  for (std::size_t i = 0; i < shards; ++i) {
    append_file(state.weights, place / known.files[i].name);
    append_file(state.optimizer, place / known.files[shards + i].name);
  }
  take_rest(state);
  return state;
}

}  // namespace

CheckpointFolder::CheckpointFolder(fs::path folder, int keep)
    : places_(std::move(folder)), keep_(keep) {}

std::vector<std::string> CheckpointFolder::names() const {
  std::vector<std::string> names;
  with_io_errors([&] {
    for (const CheckpointName& name : places_.list())
      names.push_back(name.text());
  });
  return names;
}

// What libraries throw for a file with valid checksums but a content that was
// never written by save() is an error of the file, too.
TrainState CheckpointFolder::load(const std::string& name) const {
  const fs::path place = places_.folder() / name;
  try {
    return load_from(place);
  } catch (const IoError&) {
    throw;
  } catch (const std::exception& error) {
    fail_as_invalid(place.string(), error.what());
  }
}

std::optional<TrainState> CheckpointFolder::load_latest() const {
  const std::vector<std::string> all = names();
  std::string last_error;
  for (auto name = all.rbegin(); name != all.rend(); ++name) {
    try {
      return load(*name);
    } catch (const AccessError&) {
      throw;
    } catch (const IoError& error) {
      last_error = error.what();
      log_warn("{}", last_error);
    }
  }
  if (!all.empty())
    throw IoError(concat("none of the ", all.size(), " checkpoints in ",
                         places_.folder().string(),
                         " is valid; last error: ", last_error));
  return std::nullopt;
}

bool CheckpointFolder::contains(std::int64_t step) const {
  bool is_there = false;
  with_io_errors([&] {
    const auto all = places_.list();
    is_there = std::any_of(all.begin(), all.end(),
                           [&](const auto& name) { return name.step == step; });
  });
  return is_there;
}

TrainState CheckpointFolder::load_step(std::int64_t step) const {
  std::string name;
  with_io_errors([&] { name = places_.find(step).text(); });
  return load(name);
}

void CheckpointFolder::save(const TrainState& state) {
  with_io_errors([&] {
    places_.clean();
    Draft draft(places_, state.step);
    finish(draft, state,
           write_tensors(draft.path(), state, /*shard=*/0, /*shards=*/1));
  });
}

std::vector<CheckpointFile> CheckpointFolder::write_tensors(
    const fs::path& draft, const TrainState& state, int shard, int shards) {
  return {write_tensors_to(draft / shard_name("weights", shard, shards),
                           state.weights),
          write_tensors_to(draft / shard_name("optimizer", shard, shards),
                           shard == 0 ? with_rest(state) : state.optimizer)};
}

// Older checkpoints are removed when the new one and its name are on disk.
void CheckpointFolder::finish(Draft& draft, const TrainState& state,
                              const std::vector<CheckpointFile>& files) {
  write_file_atomically(draft.path() / "state.json", state_text(state, files));
  draft.publish();
  point_links(state);
  remove_old(state);
}

// No link may point to a checkpoint that is set aside.
void CheckpointFolder::repair(const TrainState& state) {
  with_io_errors([&] {
    places_.clean();
    point_links(state);
    for (const CheckpointName& name : places_.list())
      if (name.step > state.step) places_.set_aside(name);
    remove_old(state);
  });
}

void CheckpointFolder::point_links(const TrainState& state) {
  places_.point_link(kLatest, state.step);
  places_.point_link(kBest, state.best_step);
}

void CheckpointFolder::remove_old(const TrainState& state) {
  std::vector<CheckpointName> all = places_.list();
  all.resize(all.size() -
             std::min(all.size(), static_cast<std::size_t>(keep_)));
  std::erase_if(all, [&](const CheckpointName& name) {
    return name.step == state.step || name.step == state.best_step;
  });
  places_.remove(all);
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

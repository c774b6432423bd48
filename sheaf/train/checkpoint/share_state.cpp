// Broadcasts a TrainState from rank 0: numbers as text, tensors pickled in
// memory, so that only rank 0 needs access to the run folder.
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/train/checkpoint/checkpoint.hpp"
#include "sheaf/train/checkpoint/state_file.hpp"

namespace sheaf::train {
namespace {

constexpr const char* kSent = "sent by rank 0";

using Dictionary = c10::Dict<std::string, torch::Tensor>;

std::string encode(const NamedTensors& tensors) {
  Dictionary dictionary;
  for (const auto& [name, tensor] : tensors)
    dictionary.insert(name, tensor.detach().to(torch::kCPU));
  const std::vector<char> bytes = torch::pickle_save(dictionary);
  return {bytes.begin(), bytes.end()};
}

NamedTensors decode(const std::string& bytes) {
  const c10::IValue value =
      torch::pickle_load(std::vector<char>(bytes.begin(), bytes.end()));
  NamedTensors tensors;
  for (const auto& entry : value.toGenericDict())
    tensors.emplace_back(entry.key().toStringRef(), entry.value().toTensor());
  return tensors;
}

void broadcast_text(const comm::Group& group, std::string& text) {
  std::vector<std::int64_t> size{static_cast<std::int64_t>(text.size())};
  comm::broadcast(group, size, {.name = "checkpoint size"}).wait();
  text.resize(static_cast<std::size_t>(size[0]));
  comm::broadcast(group, comm::Buffer(text.data(), text.size(), DType::kU8),
                  {.name = "checkpoint"})
      .wait();
}

}  // namespace

std::optional<TrainState> share_state(const comm::Group& group,
                                      const std::optional<TrainState>& state) {
  std::string text, weights, optimizer;
  if (group.rank() == 0 && state) {
    weights = encode(state->weights);
    optimizer = encode(with_rest(*state));
    text = state_text(*state, {describe("weights.pt", weights),
                               describe("optimizer.pt", optimizer)});
  }
  for (std::string* part : {&text, &weights, &optimizer})
    broadcast_text(group, *part);
  if (text.empty()) return std::nullopt;
  const KnownState known = parse_state(text, kSent);
  check_file(known.files[0], describe("weights.pt", weights), kSent);
  check_file(known.files[1], describe("optimizer.pt", optimizer), kSent);
  TrainState result{known.numbers};
  result.weights = decode(weights);
  result.optimizer = decode(optimizer);
  take_rest(result);
  return result;
}

}  // namespace sheaf::train

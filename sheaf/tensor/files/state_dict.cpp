#include "sheaf/tensor/files/state_dict.hpp"

#include <map>
#include <set>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/formats/archives/torch_archive.hpp"
#include "sheaf/tensor/files/elements.hpp"

namespace sheaf::tensor {
namespace {

// Longer lists of names are truncated, so that messages stay readable.
constexpr std::size_t kMaxNames = 8;

void collect(const torch::nn::Module& module, const std::string& prefix,
             StateDict& state) {
  for (const auto& item : module.named_parameters(/*recurse=*/false))
    if (item.value().defined())
      state.emplace_back(prefix + item.key(), item.value().detach());
  for (const auto& item : module.named_buffers(/*recurse=*/false))
    if (item.value().defined())
      state.emplace_back(prefix + item.key(), item.value().detach());
  for (const auto& item : module.named_children())
    collect(*item.value(), prefix + item.key() + ".", state);
}

std::string listed(std::string_view title,
                   const std::vector<std::string>& names) {
  if (names.empty()) return "";
  const std::span<const std::string> all(names);
  std::string text =
      concat("; ", title, ": ",
             join(all.first(std::min(kMaxNames, all.size())), ", "));
  if (names.size() > kMaxNames)
    text += concat(" and ", names.size() - kMaxNames, " more");
  return text;
}

// The differences between `state` and `wanted`, by kind.
struct Faults {
  std::vector<std::string> missing, unexpected, shapes, twice;

  Faults(const StateDict& wanted,
         const std::map<std::string, at::Tensor>& given,
         const StateDict& state) {
    std::set<std::string> known;
    for (const auto& [name, tensor] : wanted) {
      known.insert(name);
      const auto found = given.find(name);
      if (found == given.end())
        missing.push_back(name);
      else if (found->second.sizes() != tensor.sizes())
        shapes.push_back(concat(name, " is ", found->second.sizes(),
                                ", the module's is ", tensor.sizes()));
    }
    std::set<std::string> seen;
    for (const auto& [name, tensor] : state) {
      if (!seen.insert(name).second)
        twice.push_back(name);
      else if (!known.count(name))
        unexpected.push_back(name);
    }
  }

  std::string text() const {
    return listed("missing", missing) + listed("unexpected", unexpected) +
           listed("of another shape", shapes) + listed("given twice", twice);
  }
};

std::vector<at::Tensor> load_storages(const formats::TorchArchive& archive,
                                      const formats::TorchState& state) {
  std::vector<at::Tensor> storages;
  for (const formats::TorchStorage& storage : state.storages)
    storages.push_back(tensor_of(storage.dtype, archive.is_swapped(),
                                 archive.read(storage).bytes()));
  return storages;
}

at::Tensor view(const at::Tensor& storage, const formats::TorchTensor& tensor) {
  for (const std::int64_t size : tensor.sizes)
    if (size == 0) return at::empty(tensor.sizes, storage.options());
  return storage.as_strided(tensor.sizes, tensor.strides, tensor.offset);
}

}  // namespace

StateDict state_dict(const torch::nn::Module& module) {
  StateDict state;
  collect(module, "", state);
  return state;
}

void load_state_dict(torch::nn::Module& module, const StateDict& state) {
  const StateDict wanted = state_dict(module);
  std::map<std::string, at::Tensor> given;
  for (const auto& [name, tensor] : state) {
    SHEAF_CHECK(tensor.defined(), "the tensor '", name,
                "' of the state is undefined; assign one first");
    given.emplace(name, tensor);
  }
  const std::string faults = Faults(wanted, given, state).text();
  SHEAF_CHECK(faults.empty(), "the state does not fit ", module.name(), faults,
              "; load it into the network that it was saved from");
  const torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : wanted) {
    at::Tensor target = tensor;
    target.copy_(given.at(name));
  }
}

StateDict load_state_dict_file(const std::filesystem::path& path,
                               const StateDictFileOptions& options) {
  const formats::TorchArchive archive(path);
  const formats::TorchState state = archive.state(options.key);
  const std::vector<at::Tensor> storages = load_storages(archive, state);
  StateDict loaded;
  for (const formats::TorchTensor& tensor : state.tensors)
    loaded.emplace_back(tensor.name, view(storages[tensor.storage], tensor));
  return loaded;
}

}  // namespace sheaf::tensor

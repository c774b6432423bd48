#include "sheaf/formats/archives/torch_archive.hpp"
#include "sheaf/tensor/files/elements.hpp"
#include "sheaf/tensor/files/state_dict.hpp"

namespace sheaf::tensor {
namespace {

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

// Archives of torch.save: zip, pickle and the layout of tensors. Since few
// changed archives match their checksums, input that is no archive is the
// pickle of one.
// parser: sheaf/formats/archives/torch_archive.cpp
// sheaf/formats/archives/torch_tensors.cpp
#include <cstdlib>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/archives/torch_archive.hpp"
#include "sheaf/formats/arrays/elements.hpp"
#include "tests/fuzz/fuzz_target.hpp"

using namespace sheaf::formats;

namespace {

std::string archive_of(const std::string& input) {
  if (input.starts_with("PK")) return input;
  const std::string bytes(80, '\2');
  ZipWriter archive;
  archive.add("archive/data.pkl", {input});
  int key = 0;
  for (const std::size_t size : {24, 4, 16, 0, 80})
    archive.add("archive/data/" + std::to_string(key++),
                {std::string_view(bytes).substr(0, size)});
  archive.add("archive/byteorder", {input.size() % 2 ? "big" : "little"});
  return archive.bytes();
}

// Each element is inside of its storage.
void check_tensor(const TorchTensor& tensor, const TorchStorage& storage) {
  if (tensor.sizes.size() != tensor.strides.size()) std::abort();
  if (count_elements(storage.dtype, tensor.sizes).value() == 0) return;
  __int128 last = tensor.offset;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i) {
    if (tensor.sizes[i] < 0 || tensor.strides[i] < 0) std::abort();
    last += static_cast<__int128>(tensor.sizes[i] - 1) * tensor.strides[i];
  }
  if (tensor.offset < 0 || last >= storage.count) std::abort();
}

void load(const TorchArchive& archive, std::string_view key) try {
  const TorchState state = archive.state(key);
  for (const TorchTensor& tensor : state.tensors)
    check_tensor(tensor, state.storages.at(tensor.storage));
  for (const TorchStorage& storage : state.storages) {
    const auto content = archive.read(storage);
    const std::size_t bytes =
        static_cast<std::size_t>(storage.count) * size_of(storage.dtype);
    std::string copy(bytes, '\0');
    copy_elements(storage.dtype, archive.is_swapped(),
                  content.bytes().substr(0, bytes), copy.data());
    if (content.bytes().size() < bytes) std::abort();
  }
} catch (const sheaf::Error&) {
}

}  // namespace

SHEAF_FUZZ_TARGET(state_dict) try {
  const TorchArchive archive(
      "input", archive_of(std::string(input.begin(), input.end())));
  load(archive, "");
  load(archive, "model");
} catch (const sheaf::Error&) {
}

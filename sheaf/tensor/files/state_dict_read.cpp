#include <bit>
#include <cstring>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/formats/pickle.hpp"
#include "sheaf/formats/zip.hpp"
#include "sheaf/tensor/files/npy_format.hpp"
#include "sheaf/tensor/files/state_dict.hpp"
#include "sheaf/tensor/files/storage_types.hpp"

namespace sheaf::tensor {
namespace {

using Kind = formats::PickleValue::Kind;
using Values = std::vector<formats::PickleValue>;

constexpr std::string_view kPickle = "/data.pkl";

bool is_tensor(const formats::PickleValue& value) {
  return value.kind == Kind::kCall &&
         value.text.starts_with("torch._utils._rebuild_");
}

bool is_state(const formats::PickleValue& value) {
  if (value.kind != Kind::kDictionary || value.items->values.empty())
    return false;
  for (std::size_t i = 1; i < value.items->values.size(); i += 2)
    if (!is_tensor(value.items->values[i])) return false;
  return true;
}

// Builds tensors from the pickle and the storages in the archive.
class TensorReader {
 public:
  explicit TensorReader(const std::filesystem::path& path) : archive_(path) {
    for (const formats::ZipEntry& entry : archive_.entries())
      if (entry.name.ends_with(kPickle)) pickle_ = &entry;
    if (!pickle_)
      fail("the archive has no data.pkl; it was not written by torch.save");
    folder_ = pickle_->name.substr(0, pickle_->name.size() - kPickle.size());
    if (const formats::ZipEntry* order =
            archive_.find(folder_ + "/byteorder")) {
      const bool is_big = archive_.read(*order) == "big";
      is_swapped_ = is_big != (std::endian::native == std::endian::big);
    }
  }

  formats::PickleValue root() const {
    const std::string bytes = archive_.read(*pickle_);
    formats::ByteReader reader(
        concat(archive_.name(), ", entry ", pickle_->name), bytes);
    return read_pickle(reader);
  }

  at::Tensor tensor(const std::string& name,
                    const formats::PickleValue& value) {
    const Values& arguments = value.items->values;
    if (value.text.starts_with("torch._utils._rebuild_parameter") &&
        !arguments.empty() && is_tensor(arguments[0]) &&
        !arguments[0].text.starts_with("torch._utils._rebuild_parameter"))
      return tensor(name, arguments[0]);
    const bool is_known = value.text == "torch._utils._rebuild_tensor_v2" ||
                          value.text == "torch._utils._rebuild_tensor";
    if (!is_known)
      fail(concat("'", name, "' is built by ", value.text,
                  ", which is not supported; save plain, dense tensors"));
    if (arguments.size() < 4 || arguments[1].kind != Kind::kInteger)
      fail(concat("'", name, "' lacks its storage, offset, size or stride"));
    return view(name, storage(name, arguments[0]), arguments[1].integer,
                integers(name, arguments[2]), integers(name, arguments[3]));
  }

  [[noreturn]] void fail(const std::string& message) const {
    const std::uint64_t offset = pickle_ ? pickle_->offset : 0;
    throw IoError(concat(archive_.name(), ": byte ", offset, ": ", message));
  }

 private:
  std::vector<std::int64_t> integers(const std::string& name,
                                     const formats::PickleValue& value) const {
    // A torch.Size is a call with the tuple as its argument.
    if (value.kind == Kind::kCall && value.items->values.size() == 1 &&
        value.items->values[0].kind == Kind::kList)
      return integers(name, value.items->values[0]);
    std::vector<std::int64_t> numbers;
    if (value.kind != Kind::kList)
      fail(concat("'", name, "' has ", describe(value), " as size or stride"));
    for (const formats::PickleValue& item : value.items->values) {
      if (item.kind != Kind::kInteger || item.integer < 0)
        fail(concat("'", name, "' has ", describe(item), " as size or stride"));
      numbers.push_back(item.integer);
    }
    return numbers;
  }

  at::Tensor view(const std::string& name, const at::Tensor& storage,
                  std::int64_t offset, const std::vector<std::int64_t>& sizes,
                  const std::vector<std::int64_t>& strides) const {
    bool fits = sizes.size() == strides.size() && offset >= 0;
    std::int64_t last = offset, step = 0;
    bool is_empty = false;
    for (std::size_t i = 0; fits && i < sizes.size(); ++i) {
      is_empty |= sizes[i] == 0;
      fits = !__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) &&
             !__builtin_add_overflow(last, step, &last);
    }
    if (!fits || (!is_empty && last >= storage.numel()))
      fail(concat("'", name, "' reaches beyond its storage of ",
                  storage.numel(), " elements; the file is corrupt"));
    if (is_empty) return at::empty(sizes, storage.options());
    return storage.as_strided(sizes, strides, offset);
  }

  // The storage that a tuple such as ("storage", torch.FloatStorage, "0",
  // "cpu", count) describes.
  at::Tensor storage(const std::string& name,
                     const formats::PickleValue& value) {
    const bool is_kept = value.kind == Kind::kPersistent &&
                         value.items->values[0].kind == Kind::kList;
    const Values none;
    const Values& parts = is_kept ? value.items->values[0].items->values : none;
    if (parts.size() < 5 || parts[0].text != "storage" ||
        parts[4].kind != Kind::kInteger)
      fail(concat("'", name, "' has ", describe(value), " as its storage"));
    const std::string key = parts[1].text + " " + parts[2].text;
    const auto known = storages_.find(key);
    if (known != storages_.end()) return known->second;
    return storages_[key] = load(name, parts);
  }

  at::Tensor load(const std::string& name, const Values& parts) const {
    const std::string_view type_name = parts[1].text;
    const auto type =
        type_of_storage(type_name.substr(type_name.rfind('.') + 1));
    if (!type)
      fail(concat("'", name, "' is stored in a ", type_name,
                  "; complex and quantized tensors cannot be read"));
    const auto entry_name = concat(folder_, "/data/", parts[2].text);
    const formats::ZipEntry* entry = archive_.find(entry_name);
    if (!entry) fail(concat("the entry ", entry_name, " is missing"));
    const std::string bytes = archive_.read(*entry);
    const bool is_bool = *type == at::kBool;
    const auto size = static_cast<std::int64_t>(c10::elementSize(*type));
    const auto count = static_cast<std::int64_t>(bytes.size()) / size;
    if (parts[4].integer < 0 || count < parts[4].integer)
      fail(concat("the entry ", entry_name, " holds ", count,
                  " elements instead of ", parts[4].integer));
    const at::Tensor flat = at::empty({count}, is_bool ? at::kByte : *type);
    if (count > 0) std::memcpy(flat.data_ptr(), bytes.data(), flat.nbytes());
    if (is_swapped_) swap_bytes(flat);
    return is_bool ? flat.to(at::kBool) : flat;
  }

  formats::ZipReader archive_;
  const formats::ZipEntry* pickle_ = nullptr;
  std::string folder_;
  bool is_swapped_ = false;
  std::map<std::string, at::Tensor> storages_;
};

// "; keys that hold a state: model, ema", or a hint if there are none.
std::string keys_of_states(const formats::PickleValue& root) {
  std::vector<std::string> keys;
  if (root.kind == Kind::kDictionary) {
    const Values& items = root.items->values;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (is_state(items[i + 1])) keys.push_back(items[i].text);
  }
  if (keys.empty()) return "; save model.state_dict() in Python";
  return "; keys that hold a state: " + join(keys, ", ");
}

formats::PickleValue chosen(const TensorReader& reader,
                            const formats::PickleValue& root,
                            const std::string& key) {
  if (key.empty()) return root;
  if (root.kind == Kind::kDictionary) {
    const Values& items = root.items->values;
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (items[i].kind == Kind::kText && items[i].text == key)
        return items[i + 1];
  }
  reader.fail(concat("there is no key '", key, "'", keys_of_states(root)));
}

}  // namespace

StateDict load_state_dict_file(const std::filesystem::path& path,
                               const StateDictFileOptions& options) {
  TensorReader reader(path);
  const formats::PickleValue root = reader.root();
  const formats::PickleValue state = chosen(reader, root, options.key);
  if (state.kind != Kind::kDictionary)
    reader.fail(concat("the file holds ", describe(state),
                       " instead of a dictionary of tensors",
                       keys_of_states(root)));
  StateDict loaded;
  const Values& items = state.items->values;
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (items[i].kind != Kind::kText || !is_tensor(items[i + 1]))
      reader.fail(concat("the entry of ", describe(items[i]), " is ",
                         describe(items[i + 1]), ", not a tensor",
                         keys_of_states(root)));
    loaded.emplace_back(items[i].text,
                        reader.tensor(items[i].text, items[i + 1]));
  }
  return loaded;
}

}  // namespace sheaf::tensor

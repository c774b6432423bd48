#include "sheaf/formats/archives/torch_tensors.hpp"

#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/archives/torch_archive.hpp"
#include "sheaf/formats/arrays/elements.hpp"

namespace sheaf::formats {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kParameter = "torch._utils._rebuild_parameter";

bool is_parameter(const PickleValue& value) {
  return is_torch_tensor(value) && value.text().starts_with(kParameter);
}

// The storage whose elements `type_name` describes, such as
// "torch.FloatStorage".
std::optional<DType> type_of_storage(std::string_view type_name) {
  return type_of_torch_storage(type_name.substr(type_name.rfind('.') + 1));
}

// The index of the last element of a view without empty axes; nullopt if it
// does not fit 63 bits.
std::optional<std::int64_t> last_element(const TorchTensor& tensor) {
  std::int64_t last = tensor.offset, step = 0;
  for (std::size_t i = 0; i < tensor.sizes.size(); ++i)
    if (__builtin_mul_overflow(tensor.sizes[i] - 1, tensor.strides[i], &step) ||
        __builtin_add_overflow(last, step, &last))
      return std::nullopt;
  return last;
}

}  // namespace

bool is_torch_tensor(const PickleValue& value) {
  return value.is(Kind::kCall) &&
         value.text().starts_with("torch._utils._rebuild_");
}

void fail_in_archive(const ZipReader& zip, const ZipEntry* pickle,
                     const std::string& message) {
  throw IoError(concat(zip.name(), ": byte ", pickle ? pickle->offset : 0, ": ",
                       message));
}

TorchStateBuilder::TorchStateBuilder(const ZipReader& zip,
                                     const ZipEntry& pickle)
    : zip_(zip),
      pickle_(pickle),
      folder_(pickle.name.substr(0, pickle.name.rfind('/'))) {}

void TorchStateBuilder::add(std::string_view name, const PickleValue& tensor) {
  const auto arguments = tensor.items();
  if (is_parameter(tensor) && !arguments.empty() &&
      is_torch_tensor(arguments[0]) && !is_parameter(arguments[0]))
    return add(name, arguments[0]);
  if (tensor.text() != "torch._utils._rebuild_tensor_v2" &&
      tensor.text() != "torch._utils._rebuild_tensor")
    fail(concat("'", shown(name), "' is built by ", shown(tensor.text()),
                ", which is not supported; save plain, dense tensors"));
  if (arguments.size() < 4 || !arguments[1].is(Kind::kInteger))
    fail(concat("'", shown(name), "' lacks its storage, offset, size or ",
                "stride"));
  if (!names_.insert(name).second)
    fail(concat("two tensors have the name '", shown(name), "'"));
  TorchTensor described;
  described.name = name;
  described.storage = storage(name, arguments[0]);
  described.offset = arguments[1].integer();
  described.sizes = integers(name, arguments[2]);
  described.strides = integers(name, arguments[3]);
  check_view(described);
  check_memory(described);
  state_.tensors.push_back(std::move(described));
}

std::vector<std::int64_t> TorchStateBuilder::integers(
    std::string_view name, const PickleValue& value) const {
  // A torch.Size is a call with the tuple as its argument.
  const bool is_size = value.is(Kind::kCall) && value.items().size() == 1;
  const PickleValue& tuple = is_size ? value.items()[0] : value;
  if (!tuple.is(Kind::kList))
    fail(concat("'", shown(name), "' has ", describe(value),
                " as size or stride"));
  if (tuple.items().size() > kMaxAxes)
    fail(concat("'", shown(name), "' has ", tuple.items().size(),
                " axes; a tensor has at most ", kMaxAxes));
  std::vector<std::int64_t> numbers;
  for (const PickleValue& item : tuple.items()) {
    if (!item.is(Kind::kInteger) || item.integer() < 0)
      fail(concat("'", shown(name), "' has ", describe(item),
                  " as size or stride"));
    numbers.push_back(item.integer());
  }
  return numbers;
}

// `value`: ("storage", torch.FloatStorage, "0", "cpu", count).
std::size_t TorchStateBuilder::storage(std::string_view name,
                                       const PickleValue& value) {
  const bool is_external = value.is(Kind::kPersistent);
  const auto parts =
      is_external ? value.items()[0].items() : PickleValue().items();
  if (parts.size() < 5 || parts[0].text() != "storage" ||
      !parts[1].is(Kind::kGlobal) || !parts[2].is(Kind::kText) ||
      !parts[4].is(Kind::kInteger))
    fail(
        concat("'", shown(name), "' has ", describe(value), " as its storage"));
  const auto dtype = type_of_storage(parts[1].text());
  if (!dtype)
    fail(concat("'", shown(name), "' is stored in a ", shown(parts[1].text()),
                "; complex and quantized tensors cannot be read"));
  const std::string_view key = parts[2].text();
  const auto [known, is_new] = storages_.emplace(key, state_.storages.size());
  if (is_new)
    state_.storages.push_back(find_storage(key, *dtype, parts[4].integer()));
  const TorchStorage& storage = state_.storages[known->second];
  if (storage.dtype != *dtype || storage.count != parts[4].integer())
    fail(concat("the storage ", shown(key),
                " is described in two ways; the file is corrupt"));
  return known->second;
}

TorchStorage TorchStateBuilder::find_storage(std::string_view key, DType dtype,
                                             std::int64_t count) const {
  const std::string name = concat(folder_, "/data/", key);
  const ZipEntry* entry = zip_.find(name);
  if (!entry) fail(concat("the entry ", shown(name), " is missing"));
  // A storage may end with a part of an element.
  const std::uint64_t held = entry->bytes / size_of(dtype);
  if (count < 0 || static_cast<std::uint64_t>(count) != held)
    fail(concat("the entry ", shown(name), " holds ", held,
                " elements instead of ", count));
  return {dtype, count, entry};
}

void TorchStateBuilder::check_view(const TorchTensor& tensor) const {
  const TorchStorage& storage = state_.storages[tensor.storage];
  const auto count = count_elements(storage.dtype, tensor.sizes);
  if (!count)
    fail(concat("'", shown(tensor.name), "' is larger than any memory"));
  const bool is_consistent =
      tensor.sizes.size() == tensor.strides.size() && tensor.offset >= 0;
  if (is_consistent && *count == 0) return;
  const auto last = is_consistent ? last_element(tensor) : std::nullopt;
  if (!last || *last >= storage.count)
    fail(concat("'", shown(tensor.name), "' reaches beyond its storage of ",
                storage.count, " elements; the file is corrupt"));
}

// A pickle may refer to the same large tensor very often.
void TorchStateBuilder::check_memory(const TorchTensor& tensor) {
  constexpr std::size_t kTensorBytes = 512;  // of a tensor without axes
  used_bytes_ += kTensorBytes + tensor.name.size() + 32 * tensor.sizes.size();
  if (used_bytes_ > max_pickle_memory(zip_.size()))
    fail("it has too many tensors for its size; the file is corrupt");
}

}  // namespace sheaf::formats

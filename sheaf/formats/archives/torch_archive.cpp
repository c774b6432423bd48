#include "sheaf/formats/archives/torch_archive.hpp"

#include <bit>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/formats/archives/torch_tensors.hpp"

namespace sheaf::formats {
namespace {

using Kind = PickleValue::Kind;

constexpr std::string_view kPickleName = "/data.pkl";
constexpr std::size_t kMostKeys = 8;  // in a message

bool is_state(const PickleValue& value) {
  const auto items = value.items();
  if (!value.is(Kind::kDictionary) || items.empty()) return false;
  for (std::size_t i = 1; i < items.size(); i += 2)
    if (!is_torch_tensor(items[i])) return false;
  return true;
}

// "; keys that hold a state: model, ema", or a hint if there are none.
std::string keys_of_states(const PickleValue& root) {
  std::vector<std::string> keys;
  // Examined once, even if a damaged file has many keys for the same items.
  std::map<const PickleValue*, bool> known;
  const auto items = root.items();
  for (std::size_t i = 0; root.is(Kind::kDictionary) && i < items.size() &&
                          keys.size() < kMostKeys;
       i += 2) {
    const PickleValue& value = items[i + 1];
    const auto [found, is_new] = known.emplace(value.items().data(), false);
    if (is_new) found->second = is_state(value);
    if (found->second) keys.push_back(shown(items[i].text()));
  }
  if (keys.empty()) return "; save model.state_dict() in Python";
  return "; keys that hold a state: " + join(keys, ", ");
}

}  // namespace

TorchArchive::TorchArchive(const std::filesystem::path& path) : zip_(path) {
  find_entries();
}

TorchArchive::TorchArchive(std::string name, std::string bytes)
    : zip_(std::move(name), std::move(bytes)) {
  find_entries();
}

void TorchArchive::find_entries() {
  for (const ZipEntry& entry : zip_.entries()) {
    if (!entry.name.ends_with(kPickleName)) continue;
    if (pickle_) fail("the archive has more than one data.pkl");
    pickle_ = &entry;
  }
  if (!pickle_)
    fail("the archive has no data.pkl; it was not written by torch.save");
  folder_ = pickle_->name.substr(0, pickle_->name.rfind('/'));
  is_swapped_ = read_byte_order();
}

bool TorchArchive::read_byte_order() const {
  const ZipEntry* entry = zip_.find(folder_ + "/byteorder");
  if (!entry) return false;
  constexpr bool kIsBig = std::endian::native == std::endian::big;
  if (entry->bytes <= 6) {
    const ZipContent content = zip_.read(*entry);
    if (content.bytes() == "little") return kIsBig;
    if (content.bytes() == "big") return !kIsBig;
  }
  fail("its byteorder is neither little nor big; the file is corrupt");
}

TorchState TorchArchive::state(std::string_view key) const {
  const std::uint64_t max_bytes = max_pickle_memory(zip_.size());
  if (pickle_->bytes > max_bytes)
    fail(concat("a pickle of ", pickle_->bytes,
                " bytes is too large for this file; the file is corrupt"));
  const ZipContent content = zip_.read(*pickle_);
  ByteReader reader(concat(zip_.name(), ", entry ", shown(pickle_->name)),
                    content.bytes());
  const Pickle pickle = read_pickle(reader, max_bytes);
  return state_of(pickle.root(), key);
}

TorchState TorchArchive::state_of(const PickleValue& root,
                                  std::string_view key) const {
  const PickleValue state = key.empty() ? root : at_key(root, key);
  if (!state.is(Kind::kDictionary))
    fail(concat("the file holds ", describe(state),
                " instead of a dictionary of tensors", keys_of_states(root)));
  TorchStateBuilder builder(zip_, *pickle_);
  const auto items = state.items();
  for (std::size_t i = 0; i + 1 < items.size(); i += 2) {
    if (!items[i].is(Kind::kText) || !is_torch_tensor(items[i + 1]))
      fail(concat("the entry of ", describe(items[i]), " is ",
                  describe(items[i + 1]), ", not a tensor",
                  keys_of_states(root)));
    builder.add(items[i].text(), items[i + 1]);
  }
  return builder.finish();
}

PickleValue TorchArchive::at_key(const PickleValue& root,
                                 std::string_view key) const {
  const auto items = root.items();
  if (root.is(Kind::kDictionary))
    for (std::size_t i = 0; i + 1 < items.size(); i += 2)
      if (items[i].is(Kind::kText) && items[i].text() == key)
        return items[i + 1];
  fail(concat("there is no key '", key, "'", keys_of_states(root)));
}

ZipContent TorchArchive::read(const TorchStorage& storage) const {
  return zip_.read(*storage.entry);
}

void TorchArchive::fail(const std::string& message) const {
  fail_in_archive(zip_, pickle_, message);
}

}  // namespace sheaf::formats

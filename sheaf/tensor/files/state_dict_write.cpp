// Writes a state in the format of torch.save: a zip archive with a pickle of
// the dictionary (archive/data.pkl) and the bytes of each storage
// (archive/data/0 ...). A storage is a region of memory: tensors that overlap
// share one.
#include <algorithm>
#include <array>
#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/formats/archives/torch_archive.hpp"
#include "sheaf/formats/archives/zip.hpp"
#include "sheaf/tensor/files/elements.hpp"
#include "sheaf/tensor/files/state_dict.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::tensor {
namespace {

// A tensor of the state and its position in a storage.
struct Placed {
  std::string name;
  at::Tensor tensor;
  std::size_t storage = 0;
  std::int64_t offset = 0;
};

struct Span {
  const char* begin;
  const char* end;
  std::size_t index;  // of the tensor
};

// The memory from a tensor's first element to its last.
Span span_of(const at::Tensor& tensor, std::size_t index) {
  std::int64_t last = 0;
  for (std::int64_t axis = 0; axis < tensor.dim(); ++axis)
    last += (tensor.size(axis) - 1) * tensor.stride(axis);
  const auto* begin = static_cast<const char*>(tensor.data_ptr());
  return {begin, begin + (last + 1) * tensor.element_size(), index};
}

class Storages {
 public:
  explicit Storages(const StateDict& state) {
    for (const auto& [name, tensor] : state) {
      SHEAF_CHECK(tensor.defined() && tensor.layout() == at::kStrided,
                  "the tensor '", name,
                  "' of the state is undefined or sparse; save dense tensors");
      dtype_of(tensor.scalar_type());  // rejects complex tensors
      placed_.push_back({name, tensor.detach().resolve_conj().resolve_neg()});
    }
    place_all();
  }

  const std::vector<Placed>& placed() const { return placed_; }
  const std::vector<at::Tensor>& storages() const { return storages_; }

 private:
  void place_all() {
    std::map<at::Device, std::vector<Span>, bool (*)(at::Device, at::Device)>
        spans([](at::Device a, at::Device b) { return a.str() < b.str(); });
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      const at::Tensor& tensor = placed_[i].tensor;
      if (tensor.numel() == 0)
        place_alone(placed_[i]);
      else
        spans[tensor.device()].push_back(span_of(tensor, i));
    }
    for (auto& [device, list] : spans) place_spans(list);
    number_by_use();
  }

  // Numbers the storages in order of use. They were found in order of address,
  // which would make files of equal states differ.
  void number_by_use() {
    constexpr std::size_t kNone = -1;
    std::vector<std::size_t> number(storages_.size(), kNone);
    std::vector<at::Tensor> in_order;
    for (Placed& placed : placed_) {
      std::size_t& mine = number[placed.storage];
      if (mine == kNone) {
        mine = in_order.size();
        in_order.push_back(storages_[placed.storage]);
      }
      placed.storage = mine;
    }
    storages_ = std::move(in_order);
  }

  // Overlapping spans, sorted by address, form one region.
  void place_spans(std::vector<Span>& spans) {
    std::sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
      return std::pair(a.begin, a.index) < std::pair(b.begin, b.index);
    });
    for (std::size_t first = 0, next; first < spans.size(); first = next) {
      const char* end = spans[first].end;
      for (next = first + 1; next < spans.size() && spans[next].begin < end;
           ++next)
        end = std::max(end, spans[next].end);
      place_region({spans.begin() + static_cast<std::ptrdiff_t>(first),
                    spans.begin() + static_cast<std::ptrdiff_t>(next)},
                   end);
    }
  }

  void place_region(const std::vector<Span>& spans, const char* end) {
    const Placed& first = placed_[spans[0].index];
    const auto size = static_cast<std::int64_t>(first.tensor.element_size());
    const bool can_share =
        std::all_of(spans.begin(), spans.end(), [&](const Span& span) {
          const at::Tensor& tensor = placed_[span.index].tensor;
          return tensor.is_alias_of(first.tensor) &&
                 tensor.scalar_type() == first.tensor.scalar_type() &&
                 (span.begin - spans[0].begin) % size == 0;
        });
    const std::int64_t count = (end - spans[0].begin) / size;
    const bool is_full = spans.size() > 1 || count == first.tensor.numel();
    if (!can_share || !is_full) {
      for (const Span& span : spans) place_alone(placed_[span.index]);
      return;
    }
    for (const Span& span : spans) {
      placed_[span.index].storage = storages_.size();
      placed_[span.index].offset = (span.begin - spans[0].begin) / size;
    }
    storages_.push_back(
        region_of(first.tensor, count, (end - spans[0].begin) % size));
  }

  at::Tensor region_of(const at::Tensor& first, std::int64_t count,
                       std::int64_t rest) {
    SHEAF_ASSERT(rest == 0, "a region ends within an element");
    return plain(first.as_strided({count}, {1}, first.storage_offset()));
  }

  void place_alone(Placed& placed) {
    placed.tensor = plain(placed.tensor);
    placed.storage = storages_.size();
    storages_.push_back(placed.tensor.view({-1}));
  }

  std::vector<Placed> placed_;
  std::vector<at::Tensor> storages_;
};

// Writes a pickle of protocol 2.
class Pickler {
 public:
  Pickler() { text_ = "\x80\2"; }

  std::string dictionary(const Storages& storages) {
    ordered_dict();
    if (!storages.placed().empty()) {
      text_ += '(';
      for (const Placed& placed : storages.placed()) {
        string(placed.name);
        tensor(placed, storages.storages()[placed.storage].numel());
      }
      text_ += 'u';
    }
    return text_ + '.';
  }

 private:
  void global(std::string_view module, std::string_view name) {
    text_ += concat('c', module, '\n', name, '\n');
  }

  void ordered_dict() {
    global("collections", "OrderedDict");
    text_ += ")R";
  }

  void string(std::string_view value) {
    text_ += 'X';
    formats::put_u32(text_, static_cast<std::uint32_t>(value.size()));
    text_ += value;
  }

  void integer(std::int64_t value) {
    if (value == static_cast<std::int32_t>(value)) {
      text_ += 'J';
      formats::put_u32(text_, static_cast<std::uint32_t>(value));
    } else {
      text_ += "\x8a\x08";
      formats::put_u64(text_, static_cast<std::uint64_t>(value));
    }
  }

  void integers(at::IntArrayRef values) {
    text_ += '(';
    for (const std::int64_t value : values) integer(value);
    text_ += 't';
  }

  void tensor(const Placed& placed, std::int64_t storage_count) {
    global("torch._utils", "_rebuild_tensor_v2");
    text_ += "((";
    string("storage");
    global("torch",
           formats::torch_storage_of(dtype_of(placed.tensor.scalar_type())));
    string(std::to_string(placed.storage));
    string("cpu");
    integer(storage_count);
    text_ += "tQ";
    integer(placed.offset);
    integers(placed.tensor.sizes());
    integers(placed.tensor.strides());
    text_ += '\x89';  // needs no gradient
    ordered_dict();   // has no hooks
    text_ += "tR";
  }

  std::string text_;
};

}  // namespace

void save_state_dict(const std::filesystem::path& path,
                     const StateDict& state) {
  const Storages storages(state);
  const std::string pickle = Pickler().dictionary(storages);
  formats::ZipWriter archive;
  archive.add("archive/data.pkl", {pickle});
  for (std::size_t i = 0; i < storages.storages().size(); ++i)
    archive.add(concat("archive/data/", i), {bytes_of(storages.storages()[i])});
  archive.add("archive/version", {"3\n"});
  archive.save(path);
}

}  // namespace sheaf::tensor

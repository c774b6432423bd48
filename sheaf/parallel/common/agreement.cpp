#include "sheaf/parallel/common/agreement.hpp"

#include <cstring>
#include <map>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::parallel {
namespace {

constexpr std::size_t kLumpBytes = std::size_t{64} << 20;
constexpr std::size_t kTextBytes = 256;  // maximum length of a rank's text

// Describes the memory order of a tensor's elements, in which gradients are
// exchanged. Empty for a contiguous tensor. Strides of axes of size 1 are
// ignored.
std::string order_of(const at::Tensor& tensor) {
  if (tensor.layout() != at::kStrided || tensor.is_contiguous()) return "";
  std::string text;
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    text += concat(i ? ", " : " in memory order (strides ",
                   tensor.size(i) > 1 ? tensor.stride(i) : 0);
  return text + ")";
}

std::string layout_of(const at::Tensor& tensor) {
  if (tensor.layout() == at::kStrided) return "";
  return concat(" of the layout ", tensor.layout());
}

std::string text_of(const std::pair<std::string, at::Tensor>& named) {
  const at::Tensor& tensor = named.second;
  return concat(named.first, ": ", c10::toString(tensor.scalar_type()), " ",
                tensor.sizes(), layout_of(tensor),
                tensor.requires_grad() ? order_of(tensor)
                                       : std::string(" without gradient"));
}

std::string broadcast_text(const comm::Group& group, std::string text) {
  std::vector<std::int64_t> size{static_cast<std::int64_t>(text.size())};
  comm::broadcast(group, size).wait();
  text.resize(static_cast<std::size_t>(size[0]));
  comm::broadcast(group, {text.data(), text.size(), DType::kI8}).wait();
  return text;
}

// Returns the first line that differs, from both texts; empty if they are
// equal.
std::string first_difference(const std::string& mine,
                             const std::string& theirs) {
  std::size_t at = 0;
  while (at < std::max(mine.size(), theirs.size())) {
    const auto line = [at](const std::string& text) {
      if (at >= text.size()) return std::string("nothing more");
      return text.substr(at, text.find('\n', at) - at);
    };
    if (line(mine) != line(theirs))
      return concat(line(mine), " against ", line(theirs), " on rank 0");
    at += line(mine).size() + 1;
  }
  return "";
}

}  // namespace

std::vector<std::string> share_texts(const comm::Group& group,
                                     const std::string& mine) {
  std::vector<std::int8_t> out(kTextBytes);
  std::memcpy(out.data(), mine.data(), std::min(mine.size(), kTextBytes - 1));
  std::vector<std::int8_t> all(kTextBytes *
                               static_cast<std::size_t>(group.size()));
  comm::all_gather(group, out, all).wait();
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += kTextBytes)
    texts.emplace_back(reinterpret_cast<const char*>(all.data() + at));
  return texts;
}

namespace {

// Throws UsageError on all ranks if the lines differ between ranks; the message
// contains the first difference.
void check_same_lines(const comm::Group& group, const std::string& mine,
                      const std::string& what, const std::string& advice) {
  const auto all =
      share_texts(group, first_difference(mine, broadcast_text(group, mine)));
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    SHEAF_CHECK(all[rank].empty(), "the ranks' ", what, " differ: rank ", rank,
                " has ", all[rank], "; ", advice);
}

}  // namespace

void check_same_shapes(const comm::Group& group, const NamedTensors& tensors) {
  std::string mine;
  for (const auto& named : tensors) mine += text_of(named) + '\n';
  check_same_lines(group, mine, "modules",
                   "build the same module, with the same memory formats and "
                   "the same parameters frozen, on all ranks before wrapping "
                   "it");
  for (const auto& [name, tensor] : tensors)
    SHEAF_CHECK(
        layout_of(tensor).empty(), name, " is a tensor", layout_of(tensor),
        ", which cannot be copied from rank 0 to all ranks; keep it in a "
        "member of the module that is not registered");
}

void check_same_options(const comm::Group& group, const std::string& what,
                        const std::vector<NamedOption>& options) {
  if (group.size() == 1) return;
  std::string mine;
  for (const auto& [name, value] : options) mine += name + " " + value + '\n';
  check_same_lines(group, mine, "options of " + what,
                   "pass the same options on all ranks");
}

std::uint64_t checksum(const at::Tensor& tensor) {
  const at::Tensor memory = tensor::staged(tensor);
  const auto* data = static_cast<const unsigned char*>(memory.data_ptr());
  const std::size_t bytes = memory.nbytes();
  std::uint64_t sum = 0x9e3779b97f4a7c15u ^ bytes;
  std::size_t at = 0;
  for (; at + 8 <= bytes; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, 8);
    sum = (sum ^ word) * 0xff51afd7ed558ccdu;
    sum ^= sum >> 32;
  }
  for (; at < bytes; ++at) sum = (sum ^ data[at]) * 0x100000001b3u;
  return sum;
}

void check_same_bits(const comm::Group& group, const NamedTensors& tensors) {
  std::vector<std::int64_t> mine;
  for (const auto& [name, tensor] : tensors)
    mine.push_back(static_cast<std::int64_t>(checksum(tensor)));
  const std::size_t ranks = static_cast<std::size_t>(group.size());
  std::vector<std::int64_t> all(mine.size() * ranks);
  comm::all_gather(group, mine, all).wait();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::string others;
    for (std::size_t rank = 1; rank < ranks; ++rank)
      if (all[rank * mine.size() + i] != all[i])
        others += concat(others.empty() ? "" : ", ", rank);
    if (others.empty()) continue;
    throw CheckError(concat("weights differ between ranks: ", tensors[i].first,
                            " on rank ", others,
                            " differs from rank 0; was it changed outside "
                            "the optimizer, or not on all ranks?"));
  }
}

namespace {

// Avoids unnecessary writes: a write to a tensor that autograd has saved makes
// backward() fail.
bool has_same_bits(const at::Tensor& tensor, const at::Tensor& slice) {
  const at::Tensor here = tensor.cpu().contiguous();
  return here.nbytes() == 0 ||
         std::memcmp(here.data_ptr(), slice.data_ptr(), here.nbytes()) == 0;
}

}  // namespace

void broadcast_tensors(const comm::Group& group, const NamedTensors& tensors,
                       int root, const std::vector<bool>& is_uncounted) {
  std::map<at::ScalarType, std::vector<std::size_t>> lumps;
  std::map<at::ScalarType, std::size_t> sizes;
  const at::NoGradGuard no_grad;
  const auto send = [&](std::vector<std::size_t>& lump) {
    if (lump.empty()) return;
    std::int64_t total = 0;
    for (const std::size_t i : lump) total += tensors[i].second.numel();
    const at::Tensor block = tensor::empty_shared(
        group, {total}, tensors[lump[0]].second.scalar_type());
    const auto each = [&](auto&& visit) {
      std::int64_t at = 0;
      for (const std::size_t i : lump) {
        const at::Tensor& tensor = tensors[i].second;
        visit(i, block.narrow(0, at, tensor.numel()).view(tensor.sizes()),
              tensor.detach());
        at += tensor.numel();
      }
    };
    if (group.rank() == root)
      each([](std::size_t, auto slice, const auto& tensor) {
        slice.copy_(tensor);
      });
    comm::broadcast(group, tensor::buffer_of(block), {.root = root}).wait();
    if (group.rank() != root)
      each([&](std::size_t i, const auto& slice, auto tensor) {
        if (has_same_bits(tensor, slice)) return;
        at::Tensor values = slice;
        for (std::int64_t k = 0; k < tensor.dim(); ++k)
          if (tensor.size(k) > 1 && tensor.stride(k) == 0) {  // expanded
            tensor = tensor.narrow(k, 0, 1);
            values = values.narrow(k, 0, 1);
          }
        std::optional<at::AutoDispatchBelowADInplaceOrView> below_versions;
        if (!is_uncounted.empty() && is_uncounted[i]) below_versions.emplace();
        tensor.copy_(values);
      });
    lump.clear();
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i].second;
    auto& lump = lumps[tensor.scalar_type()];
    auto& size = sizes[tensor.scalar_type()];
    lump.push_back(i);
    size += tensor.nbytes();
    if (size < kLumpBytes) continue;
    send(lump);
    size = 0;
  }
  for (auto& [type, lump] : lumps) send(lump);
}

}  // namespace sheaf::parallel

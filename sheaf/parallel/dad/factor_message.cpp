#include "sheaf/parallel/dad/factor_message.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <span>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/plan/format/parcel_rules.hpp"

namespace sheaf::parallel {
namespace {

// Size of the first message, including the count in its first element.
constexpr std::size_t kShortNumbers = plan::kFirstHeaderNumbers;

void share(const comm::Group& group, Where where, comm::ConstBuffer mine,
           comm::Buffer all, const std::vector<std::size_t>& counts) {
  if (where == Where::kAllGather) {
    comm::all_gather(group, mine, all, {.name = "factors"}, counts).wait();
    return;
  }
  comm::gather(group, mine, all, {.name = "factors to the root"}, counts)
      .wait();
  comm::broadcast(group, all, {.name = "factors of all"}).wait();
}

std::size_t total_of(const std::vector<std::size_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
}

at::Tensor empty_bytes(std::size_t size) {
  return at::empty({static_cast<std::int64_t>(size)}, at::kByte);
}

std::span<std::uint8_t> span_of(const at::Tensor& bytes) {
  return {bytes.data_ptr<std::uint8_t>(),
          static_cast<std::size_t>(bytes.numel())};
}

// Bit masks are padded to 64-bit words, so that the elements stay aligned.
std::size_t mark_bytes(std::size_t count) { return (count + 63) / 64 * 8; }

template <class Word>
at::Tensor skip_zeros(const at::Tensor& matrix) {
  const auto count = static_cast<std::size_t>(matrix.numel());
  const auto* from = static_cast<const Word*>(matrix.data_ptr());
  const at::Tensor bytes = at::empty(
      {static_cast<std::int64_t>(mark_bytes(count) + count * sizeof(Word))},
      at::kByte);
  auto* marks = static_cast<std::uint64_t*>(bytes.data_ptr());
  auto* to = reinterpret_cast<Word*>(bytes.data_ptr<std::uint8_t>() +
                                     mark_bytes(count));
  auto* const start = to;
  for (std::size_t i = 0; i < count; i += 64) {
    std::uint64_t mark = 0;
    const std::size_t end = std::min<std::size_t>(64, count - i);
    for (std::size_t j = 0; j < end; ++j) {
      const bool is_set = from[i + j] != 0;
      mark |= std::uint64_t{is_set} << j;
      *to = from[i + j];
      to += is_set ? 1 : 0;
    }
    *marks++ = mark;
  }
  const auto kept = static_cast<std::size_t>(to - start) * sizeof(Word);
  return bytes.narrow(0, 0,
                      static_cast<std::int64_t>(mark_bytes(count) + kept));
}

template <class Word>
void fill_zeros(const at::Tensor& bytes, const at::Tensor& matrix) {
  const auto count = static_cast<std::size_t>(matrix.numel());
  const auto* marks = static_cast<const std::uint64_t*>(bytes.data_ptr());
  const auto* from = reinterpret_cast<const Word*>(
      bytes.data_ptr<std::uint8_t>() + mark_bytes(count));
  auto* to = static_cast<Word*>(matrix.data_ptr());
  std::memset(to, 0, count * sizeof(Word));
  for (std::size_t i = 0; i < count; i += 64)
    for (std::uint64_t mark = *marks++; mark != 0; mark &= mark - 1)
      to[i + static_cast<std::size_t>(std::countr_zero(mark))] = *from++;
}

// Depends on the width only: zero means all bits zero (-0.0 is a value).
template <class Visit>
void with_word(std::size_t width, Visit visit) {
  if (width == 2)
    visit(std::uint16_t{});
  else if (width == 4)
    visit(std::uint32_t{});
  else
    visit(std::uint64_t{});
}

at::Tensor as_bytes(const at::Tensor& contiguous) {
  return at::from_blob(
      contiguous.data_ptr(), {static_cast<std::int64_t>(contiguous.nbytes())},
      [contiguous](void*) {}, at::kByte);
}

}  // namespace

std::vector<Numbers> share_numbers(const comm::Group& group, Where where,
                                   const Numbers& mine) {
  const auto ranks = static_cast<std::size_t>(group.size());
  Numbers first(kShortNumbers);
  first[0] = static_cast<std::int64_t>(mine.size());
  const std::size_t fitting = std::min(mine.size(), kShortNumbers - 1);
  std::copy_n(mine.begin(), fitting, first.begin() + 1);
  Numbers firsts(ranks * kShortNumbers);
  share(group, where, first, firsts,
        std::vector<std::size_t>(ranks, kShortNumbers));
  std::vector<std::size_t> rests(ranks);
  std::vector<Numbers> all(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const auto begin = firsts.begin() + static_cast<long>(r * kShortNumbers);
    const auto count = static_cast<std::size_t>(*begin);
    const std::size_t here = std::min(count, kShortNumbers - 1);
    all[r].assign(begin + 1, begin + 1 + static_cast<long>(here));
    rests[r] = count - here;
  }
  const std::size_t total = total_of(rests);
  if (total == 0) return all;
  Numbers rest(mine.begin() + static_cast<long>(fitting), mine.end());
  Numbers received(total);
  share(group, where, rest, received, rests);
  auto at = received.begin();
  for (std::size_t r = 0; r < ranks; ++r) {
    all[r].insert(all[r].end(), at, at + static_cast<long>(rests[r]));
    at += static_cast<long>(rests[r]);
  }
  return all;
}

std::vector<at::Tensor> share_bytes(const comm::Group& group, Where where,
                                    const at::Tensor& mine,
                                    const std::vector<std::size_t>& sizes) {
  const at::Tensor all = empty_bytes(total_of(sizes));
  if (all.numel() > 0) share(group, where, span_of(mine), span_of(all), sizes);
  return split_bytes(all, sizes);
}

std::vector<at::Tensor> gather_bytes(const comm::Group& group,
                                     const at::Tensor& mine,
                                     const std::vector<std::size_t>& sizes) {
  const bool is_root = group.rank() == 0;
  const at::Tensor all = empty_bytes(is_root ? total_of(sizes) : 0);
  if (total_of(sizes) > 0)
    comm::gather(group, span_of(mine), span_of(all),
                 {.name = "factors to the root"}, sizes)
        .wait();
  if (is_root) return split_bytes(all, sizes);
  return std::vector<at::Tensor>(sizes.size(), all);
}

std::vector<at::Tensor> split_bytes(const at::Tensor& all,
                                    const std::vector<std::size_t>& sizes) {
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (const std::size_t size : sizes) {
    parts.push_back(all.narrow(0, begin, static_cast<std::int64_t>(size)));
    begin += static_cast<std::int64_t>(size);
  }
  return parts;
}

at::Tensor encode(const at::Tensor& matrix, const WireFormat& format) {
  at::Tensor plain = matrix.to(at::kCPU);
  const bool is_number = plain.is_floating_point();
  if (format.type && is_number) plain = plain.to(*format.type);
  plain = plain.contiguous();
  at::Tensor bytes = as_bytes(plain);
  if (!format.skips_zeros || !is_number || plain.numel() == 0) return bytes;
  with_word(plain.element_size(), [&](auto word) {
    const at::Tensor packed = skip_zeros<decltype(word)>(plain);
    if (packed.numel() < bytes.numel()) bytes = packed;
  });
  return bytes;
}

at::Tensor decode(const at::Tensor& bytes, at::IntArrayRef sizes,
                  at::ScalarType type, const WireFormat& format) {
  const bool is_number = at::isFloatingType(type);
  const at::ScalarType wire = format.type && is_number ? *format.type : type;
  const at::Tensor matrix = at::empty(sizes, wire);
  if (bytes.numel() == static_cast<std::int64_t>(matrix.nbytes())) {
    if (matrix.numel() > 0)
      std::memcpy(matrix.data_ptr(), bytes.data_ptr(), matrix.nbytes());
  } else {
    SHEAF_ASSERT(is_number && format.skips_zeros, "factors of ", bytes.numel(),
                 " bytes");
    // A copy, so that the words of the bit masks are aligned.
    const at::Tensor own = bytes.clone();
    with_word(matrix.element_size(),
              [&](auto word) { fill_zeros<decltype(word)>(own, matrix); });
  }
  return matrix.to(type);
}

}  // namespace sheaf::parallel

#include "sheaf/cli/bench/bench_data.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/comm/kernels/reduce_kernels.hpp"
#include "sheaf/topo/host.hpp"

namespace sheaf::cli {
namespace {

using comm::Operation;

constexpr std::size_t kChunk = 4096;  // elements compared at a time
constexpr int kPoison = 0x5a;

// Small integers, so that results are exact: bf16 represents integers up to
// 256, which sums over 192 ranks do not exceed, and products stay below the
// limit of f16.
unsigned small_number(const comm::RivalCall& call, int rank,
                      std::size_t index) {
  const std::uint64_t mixed =
      (index + 1) * 0x9E3779B97F4A7C15u +
      static_cast<std::uint64_t>(rank) * 0xD1B54A32D192ED03u;
  const auto bits = static_cast<unsigned>(mixed >> 40);
  if (call.dtype == DType::kBool) return bits & 1;
  if (call.op == comm::ReduceOp::kProduct) return rank < 8 ? 1 + (bits & 1) : 1;
  return rank < 32 ? bits & 3 : bits & 1;
}

template <class T>
T element_of(unsigned number) {
  if constexpr (std::is_same_v<T, Half>)
    return to_half(static_cast<float>(number));
  else if constexpr (std::is_same_v<T, BFloat16>)
    return to_bfloat16(static_cast<float>(number));
  else
    return static_cast<T>(number);
}

template <class T>
void fill(const comm::RivalCall& call, int rank, std::size_t first,
          std::size_t count, void* elements) {
  auto* to = static_cast<T*>(elements);
  for (std::size_t i = 0; i < count; ++i)
    to[i] = element_of<T>(small_number(call, rank, first + i));
}

// A range of the result: `count` elements of these ranks' inputs, starting at
// `first`, reduced if there are several ranks.
struct Expected {
  std::size_t count;
  std::size_t first;
  std::vector<int> ranks;
};

std::vector<int> all_ranks(int ranks) {
  std::vector<int> result;
  for (int rank = 0; rank < ranks; ++rank) result.push_back(rank);
  return result;
}

// One range per rank, in the order of the result.
std::vector<Expected> expected_blocks(const Shape& shape, std::size_t first) {
  std::vector<Expected> runs;
  for (int rank = 0; rank < shape.ranks; ++rank)
    runs.push_back({shape.call.count, first, {rank}});
  return runs;
}

std::vector<Expected> expected_of(const Shape& shape) {
  const std::size_t count = shape.call.count;
  const std::size_t mine = static_cast<std::size_t>(shape.rank) * count;
  const int root = shape.call.root;
  const bool is_root = shape.rank == root;
  switch (shape.call.operation) {
    case Operation::kBarrier:
      return {};
    case Operation::kBroadcast:
      return {{count, 0, {root}}};
    case Operation::kReduce:
      if (!is_root) return {};
      return {{count, 0, all_ranks(shape.ranks)}};
    case Operation::kGather:
      if (!is_root) return {};
      return expected_blocks(shape, 0);
    case Operation::kAllGather:
      return expected_blocks(shape, 0);
    case Operation::kScatter:
      return {{count, mine, {root}}};
    case Operation::kReduceScatter:
      return {{count, mine, all_ranks(shape.ranks)}};
    case Operation::kAllToAll:
      return expected_blocks(shape, mine);
    case Operation::kSend:
      return {{count, 0, {(shape.rank + shape.ranks - 1) % shape.ranks}}};
    default:
      return {{count, 0, all_ranks(shape.ranks)}};
  }
}

// Computes elements of an expected range.
class Reference {
 public:
  Reference(const Shape& shape, const Expected& expected)
      : shape_(shape),
        expected_(expected),
        inputs_(expected.ranks.size(), std::vector<std::byte>(bytes(kChunk))) {}

  const std::byte* make(std::size_t from, std::size_t count) {
    std::vector<const void*> sources;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      fill_exact(shape_.call, expected_.ranks[i], expected_.first + from, count,
                 inputs_[i].data());
      sources.push_back(inputs_[i].data());
    }
    if (sources.size() == 1 || !is_reducing(shape_.call.operation))
      return inputs_[0].data();
    void* const outputs[] = {inputs_[0].data()};
    const bool is_average = shape_.call.op == comm::ReduceOp::kAvg;
    comm::reduce({.dtype = shape_.call.dtype,
                  .op = shape_.call.op,
                  .divisor = is_average ? shape_.ranks : 1},
                 sources, outputs, count);
    return inputs_[0].data();
  }

 private:
  std::size_t bytes(std::size_t count) const {
    return count * size_of(shape_.call.dtype);
  }
  const Shape& shape_;
  const Expected& expected_;
  std::vector<std::vector<std::byte>> inputs_;
};

std::size_t differing(const std::byte* a, const std::byte* b, std::size_t count,
                      std::size_t element) {
  if (std::memcmp(a, b, count * element) == 0) return 0;
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < count; ++i)
    wrong += std::memcmp(a + i * element, b + i * element, element) != 0;
  return wrong;
}

constexpr std::size_t kLine = 64;
constexpr std::size_t kMaxSlots = 1024;
constexpr std::size_t kMaxWorkingSet = std::size_t{256} << 20;  // per host
constexpr std::size_t kUnknownCache = std::size_t{32} << 20;
// Repeated, this byte is a float between 0.0001 and 2 in every width.
constexpr int kNumberByte = 0x3f;

std::size_t cache_bytes() {
  const topo::Cache cache = topo::detect_host().l3;
  const auto bytes = static_cast<std::size_t>(cache.bytes) *
                     static_cast<std::size_t>(cache.count);
  return bytes > 0 ? bytes : kUnknownCache;
}

std::size_t working_set() {
  static const std::size_t bytes = std::min(2 * cache_bytes(), kMaxWorkingSet);
  return bytes;
}

std::shared_ptr<std::byte> allocate_plain(std::size_t bytes) {
  void* memory = std::aligned_alloc(kLine, bytes);
  if (!memory) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), [](std::byte* p) { std::free(p); }};
}

}  // namespace

void fill_exact(const comm::RivalCall& call, int rank, std::size_t first,
                std::size_t count, void* elements) {
  using Fill =
      void (*)(const comm::RivalCall&, int, std::size_t, std::size_t, void*);
  constexpr Fill kFills[kDTypeCount] = {// in the order of DType
                                        fill<double>,       fill<float>,
                                        fill<Half>,         fill<BFloat16>,
                                        fill<std::int64_t>, fill<std::int32_t>,
                                        fill<std::int16_t>, fill<std::int8_t>,
                                        fill<std::uint8_t>, fill<bool>};
  kFills[static_cast<std::size_t>(call.dtype)](call, rank, first, count,
                                               elements);
}

void prepare_slot(const Shape& shape, std::byte* slot) {
  std::memset(slot, kPoison, shape.slot_bytes());
  const bool is_receiver = shape.call.operation == Operation::kBroadcast &&
                           shape.rank != shape.call.root;
  if (!is_receiver)
    fill_exact(shape.call, shape.rank, 0, shape.input_count,
               slot + shape.input_at * size_of(shape.call.dtype));
}

std::size_t count_wrong(const Shape& shape, const void* result) {
  const std::size_t element = size_of(shape.call.dtype);
  const auto* at = static_cast<const std::byte*>(result);
  std::size_t wrong = 0;
  for (const Expected& expected : expected_of(shape)) {
    Reference reference(shape, expected);
    for (std::size_t from = 0; from < expected.count; from += kChunk) {
      const std::size_t count = std::min(kChunk, expected.count - from);
      wrong += differing(at + from * element, reference.make(from, count),
                         count, element);
    }
    at += expected.count * element;
  }
  return wrong;
}

std::size_t slots_for(const Shape& shape, int ranks, int rotate) {
  if (rotate > 0) return static_cast<std::size_t>(rotate);
  const std::size_t share = working_set() / static_cast<std::size_t>(ranks);
  const std::size_t stride = Slots::stride(shape);
  return std::clamp((share + stride - 1) / stride, std::size_t{1}, kMaxSlots);
}

std::size_t Slots::stride(const Shape& shape) {
  const std::size_t bytes = std::max(shape.slot_bytes(), kLine);
  return (bytes + kLine - 1) / kLine * kLine;
}

Slots::Slots(const comm::Group& group, DType dtype, bool in_arena,
             std::size_t bytes)
    : memory_(in_arena ? group.allocate_bytes(bytes) : allocate_plain(bytes)) {
  std::memset(memory_.get(), dtype == DType::kBool ? 1 : kNumberByte, bytes);
}

std::byte* Slots::at(const Shape& shape, std::size_t index) const {
  return memory_.get() + index * stride(shape);
}

}  // namespace sheaf::cli

// Five nested loops; adjacent loops without gaps in both views are merged. An
// innermost loop that is contiguous in both views is a run, copied by one
// memcpy; the short runs of halos of few columns are copied with a fixed size.

#include "sheaf/halo/view.hpp"

#include <cstring>
#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::halo {
namespace {

constexpr int kLoops = 5;
// Each row of a tile's column is in another cache line, mostly in another page:
// too far apart for the hardware prefetcher.
constexpr std::int64_t kPrefetchRows = 64;
constexpr std::int64_t kPrefetchStride = 256;

struct Loop {
  std::int64_t count;
  std::int64_t from;  // stride in bytes, as `to`
  std::int64_t to;
};

struct Loops {
  std::array<Loop, kLoops> loops;  // outermost first
  int size = 0;

  Loop& back() { return loops[static_cast<std::size_t>(size - 1)]; }
  bool is_empty() const {
    for (int i = 0; i < size; ++i)
      if (loops[static_cast<std::size_t>(i)].count == 0) return true;
    return false;
  }
  // Adds an inner loop.
  void push(const Loop& loop) {
    if (loop.count == 1) return;
    const bool is_joined = size > 0 && back().from == loop.count * loop.from &&
                           back().to == loop.count * loop.to;
    if (is_joined)
      back() = {back().count * loop.count, loop.from, loop.to};
    else
      loops[static_cast<std::size_t>(size++)] = loop;
  }
  // Removes and returns the innermost loop; a loop of one iteration if there is
  // none.
  Loop pop() {
    if (size == 0) return {1, 0, 0};
    return loops[static_cast<std::size_t>(--size)];
  }
};

Loops loops_of(const ConstView& from, const View& to,
               std::size_t element_bytes) {
  SHEAF_CHECK(from.outer == to.outer && from.size == to.size,
              "two views of a halo exchange differ in size: ", from.outer[0],
              "x", from.outer[1], " planes of ", from.size[0], "x",
              from.size[1], "x", from.size[2], " and ", to.outer[0], "x",
              to.outer[1], " planes of ", to.size[0], "x", to.size[1], "x",
              to.size[2]);
  const auto bytes = static_cast<std::int64_t>(element_bytes);
  Loops loops;
  for (std::size_t i = 0; i < 2; ++i)
    loops.push({from.outer[i], from.outer_stride[i] * bytes,
                to.outer_stride[i] * bytes});
  for (std::size_t axis = 0; axis < kMaxAxes; ++axis)
    loops.push(
        {from.size[axis], from.stride[axis] * bytes, to.stride[axis] * bytes});
  return loops;
}

template <class Body>
void run_outer(const Loops& loops, int depth, const std::byte* from,
               std::byte* to, const Body& body) {
  if (depth == loops.size) return body(from, to);
  const Loop& loop = loops.loops[static_cast<std::size_t>(depth)];
  for (std::int64_t i = 0; i < loop.count; ++i)
    run_outer(loops, depth + 1, from + i * loop.from, to + i * loop.to, body);
}

void prefetch_row(const Loop& rows, const std::byte* from, const std::byte* to,
                  std::int64_t row) {
  if (rows.from > kPrefetchStride)
    __builtin_prefetch(from + (row + kPrefetchRows) * rows.from, 0, 1);
  if (rows.to > kPrefetchStride)
    __builtin_prefetch(to + (row + kPrefetchRows) * rows.to, 1, 1);
}

template <std::size_t kBytes>
void copy_words(const Loop& rows, const std::byte* from, std::byte* to) {
  for (std::int64_t row = 0; row < rows.count; ++row) {
    prefetch_row(rows, from, to, row);
    std::memcpy(to + row * rows.to, from + row * rows.from, kBytes);
  }
}

void copy_rows(const Loop& rows, const std::byte* from, std::byte* to,
               std::size_t bytes) {
  for (std::int64_t row = 0; row < rows.count; ++row)
    std::memcpy(to + row * rows.to, from + row * rows.from, bytes);
}

template <std::size_t kBytes>
void copy_all_words(const Loops& loops, const Loop& rows, const std::byte* from,
                    std::byte* to) {
  run_outer(loops, 0, from, to, [&](const std::byte* a, std::byte* b) {
    copy_words<kBytes>(rows, a, b);
  });
}

// The size in bytes of a run, contiguous in both views; removes its loop.
std::size_t take_run(Loops& loops, std::size_t element_bytes) {
  const auto bytes = static_cast<std::int64_t>(element_bytes);
  if (loops.size == 0 || loops.back().from != bytes || loops.back().to != bytes)
    return element_bytes;
  return static_cast<std::size_t>(loops.pop().count) * element_bytes;
}

template <class T>
T sum_of(T a, T b) {
  return a + b;
}
Half sum_of(Half a, Half b) { return to_half(to_float(a) + to_float(b)); }
BFloat16 sum_of(BFloat16 a, BFloat16 b) {
  return to_bfloat16(to_float(a) + to_float(b));
}

template <class T>
void add_row(const std::byte* from, std::byte* to, std::int64_t count) {
  const auto* a = reinterpret_cast<const T*>(from);
  auto* b = reinterpret_cast<T*>(to);
  for (std::int64_t i = 0; i < count; ++i) b[i] = sum_of(b[i], a[i]);
}

template <class T>
void add_all(Loops loops, const std::byte* from, std::byte* to) {
  const auto count =
      static_cast<std::int64_t>(take_run(loops, sizeof(T)) / sizeof(T));
  const Loop rows = loops.pop();
  run_outer(loops, 0, from, to, [&](const std::byte* a, std::byte* b) {
    for (std::int64_t row = 0; row < rows.count; ++row) {
      prefetch_row(rows, a, b, row);
      add_row<T>(a + row * rows.from, b + row * rows.to, count);
    }
  });
}

}  // namespace

void copy_view(const ConstView& from, const View& to,
               std::size_t element_bytes) {
  Loops loops = loops_of(from, to, element_bytes);
  if (loops.is_empty()) return;
  const std::size_t run = take_run(loops, element_bytes);
  const Loop rows = loops.pop();
  switch (run) {
    case 2:
      return copy_all_words<2>(loops, rows, from.data, to.data);
    case 4:
      return copy_all_words<4>(loops, rows, from.data, to.data);
    case 8:
      return copy_all_words<8>(loops, rows, from.data, to.data);
    case 12:
      return copy_all_words<12>(loops, rows, from.data, to.data);
    case 16:
      return copy_all_words<16>(loops, rows, from.data, to.data);
    case 24:
      return copy_all_words<24>(loops, rows, from.data, to.data);
    default:
      break;
  }
  run_outer(
      loops, 0, from.data, to.data,
      [&](const std::byte* a, std::byte* b) { copy_rows(rows, a, b, run); });
}

void add_view(const ConstView& from, const View& to, DType dtype) {
  const Loops loops = loops_of(from, to, size_of(dtype));
  if (loops.is_empty()) return;
  switch (dtype) {
    case DType::kF64:
      return add_all<double>(loops, from.data, to.data);
    case DType::kF32:
      return add_all<float>(loops, from.data, to.data);
    case DType::kF16:
      return add_all<Half>(loops, from.data, to.data);
    case DType::kBF16:
      return add_all<BFloat16>(loops, from.data, to.data);
    default:
      break;
  }
  throw UsageError(concat("halos of ", name_of(dtype),
                          " cannot be added; gradients are f64, f32, f16 or "
                          "bf16"));
}

void zero_view(const View& to, std::size_t element_bytes) {
  Loops loops = loops_of(to, to, element_bytes);
  if (loops.is_empty()) return;
  const std::size_t run = take_run(loops, element_bytes);
  run_outer(loops, 0, to.data, to.data,
            [&](const std::byte*, std::byte* b) { std::memset(b, 0, run); });
}

}  // namespace sheaf::halo

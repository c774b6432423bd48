#include "tests/support/exact.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace sheaf::test {
namespace {

using comm::ReduceOp;

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}
template <class T>
T get(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// In doubles and 64-bit integers; wrapping into narrow integers is what
// store() does.
double combine(ReduceOp op, double a, double b, bool is_bool) {
  const auto x = static_cast<std::int64_t>(a);
  const auto y = static_cast<std::int64_t>(b);
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
      return is_bool ? (x || y) : a + b;
    case ReduceOp::kProduct:
      return a * b;
    case ReduceOp::kMin:
      return std::min(a, b);
    case ReduceOp::kMax:
      return std::max(a, b);
    case ReduceOp::kBitAnd:
      return static_cast<double>(x & y);
    case ReduceOp::kBitOr:
      return static_cast<double>(x | y);
    default:
      return static_cast<double>(x ^ y);
  }
}

double divided(DType dtype, double sum, int ranks) {
  if (dtype == DType::kF64) return sum / ranks;
  if (is_float(dtype))
    return static_cast<float>(sum) / static_cast<float>(ranks);
  return std::trunc(sum / ranks);
}

}  // namespace

double exact_value(int rank, std::size_t index, ReduceOp op) {
  const auto i = static_cast<int>(index % 1009);
  if (op == ReduceOp::kProduct) return (rank * 5 + i) % 3 == 0 ? 2 : 1;
  return (rank * 7 + i * 3) % 11;
}

void store(DType dtype, std::byte* at, double value) {
  const auto whole = static_cast<std::int64_t>(value);
  switch (dtype) {
    case DType::kF64:
      return put(at, value);
    case DType::kF32:
      return put(at, static_cast<float>(value));
    case DType::kF16:
      return put(at, to_half(static_cast<float>(value)));
    case DType::kBF16:
      return put(at, to_bfloat16(static_cast<float>(value)));
    case DType::kI64:
      return put(at, whole);
    case DType::kI32:
      return put(at, static_cast<std::int32_t>(whole));
    case DType::kI16:
      return put(at, static_cast<std::int16_t>(whole));
    case DType::kI8:
      return put(at, static_cast<std::int8_t>(whole));
    case DType::kU8:
      return put(at, static_cast<std::uint8_t>(whole));
    case DType::kBool:
      return put(at, static_cast<std::uint8_t>(value != 0));
  }
}

double load(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kF64:
      return get<double>(at);
    case DType::kF32:
      return get<float>(at);
    case DType::kF16:
      return to_float(get<Half>(at));
    case DType::kBF16:
      return to_float(get<BFloat16>(at));
    case DType::kI64:
      return static_cast<double>(get<std::int64_t>(at));
    case DType::kI32:
      return get<std::int32_t>(at);
    case DType::kI16:
      return get<std::int16_t>(at);
    case DType::kI8:
      return get<std::int8_t>(at);
    default:
      return get<std::uint8_t>(at);
  }
}

std::vector<std::byte> exact_data(DType dtype, ReduceOp op, int rank,
                                  std::size_t count, std::size_t first) {
  const std::size_t element = size_of(dtype);
  std::vector<std::byte> data(count * element);
  for (std::size_t i = 0; i < count; ++i)
    store(
        dtype, data.data() + i * element,
        dtype == DType::kBool
            ? static_cast<double>((rank + static_cast<int>(i + first)) % 3 == 0)
            : exact_value(rank, i + first, op));
  return data;
}

std::vector<std::byte> exact_result(DType dtype, ReduceOp op, int ranks,
                                    std::size_t count, std::size_t first) {
  const std::size_t element = size_of(dtype);
  std::vector<std::vector<std::byte>> inputs;
  for (int rank = 0; rank < ranks; ++rank)
    inputs.push_back(exact_data(dtype, op, rank, count, first));
  std::vector<std::byte> result(count * element);
  for (std::size_t i = 0; i < count; ++i) {
    double value = load(dtype, inputs[0].data() + i * element);
    for (int rank = 1; rank < ranks; ++rank)
      value =
          combine(op, value,
                  load(dtype, inputs[static_cast<std::size_t>(rank)].data() +
                                  i * element),
                  dtype == DType::kBool);
    if (op == ReduceOp::kAvg) value = divided(dtype, value, ranks);
    store(dtype, result.data() + i * element, value);
  }
  return result;
}

}  // namespace sheaf::test

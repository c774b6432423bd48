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

// Computes in doubles and 64-bit integers; store() wraps the result to narrow
// integers.
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

// Inputs and results repeat after this number of elements. It is a prime, so
// that the period does not align with parts of a buffer. Long buffers are
// filled by copying their first part.
constexpr std::size_t kPeriod = 1009;

void repeat(std::vector<std::byte>& data, std::size_t bytes) {
  for (std::size_t done = bytes; done < data.size(); done *= 2)
    std::memcpy(data.data() + done, data.data(),
                std::min(done, data.size() - done));
}

double input_value(DType dtype, ReduceOp op, int rank, std::size_t index) {
  if (dtype != DType::kBool) return exact_value(rank, index, op);
  return (rank + static_cast<int>(index % kPeriod)) % 3 == 0;
}

}  // namespace

double exact_value(int rank, std::size_t index, ReduceOp op) {
  const auto i = static_cast<int>(index % kPeriod);
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

std::vector<std::byte> exact_data(DType dtype, ReduceOp op, int rank,
                                  std::size_t count, std::size_t first) {
  const std::size_t element = size_of(dtype);
  std::vector<std::byte> data(count * element);
  for (std::size_t i = 0; i < std::min(count, kPeriod); ++i)
    store(dtype, data.data() + i * element,
          input_value(dtype, op, rank, i + first));
  repeat(data, kPeriod * element);
  return data;
}

std::vector<std::byte> exact_result(DType dtype, ReduceOp op, int ranks,
                                    std::size_t count, std::size_t first) {
  const std::size_t element = size_of(dtype);
  const bool is_bool = dtype == DType::kBool;
  std::vector<std::byte> result(count * element);
  for (std::size_t i = 0; i < std::min(count, kPeriod); ++i) {
    double value = input_value(dtype, op, 0, i + first);
    for (int rank = 1; rank < ranks; ++rank)
      value =
          combine(op, value, input_value(dtype, op, rank, i + first), is_bool);
    if (op == ReduceOp::kAvg) value = divided(dtype, value, ranks);
    store(dtype, result.data() + i * element, value);
  }
  repeat(result, kPeriod * element);
  return result;
}

}  // namespace sheaf::test

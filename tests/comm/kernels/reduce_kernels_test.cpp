#include "sheaf/comm/kernels/reduce_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "naive_reduce.hpp"
#include "sheaf/base/error.hpp"
#include "sheaf/comm/kernels/reduce_loops_table.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

// Random bits, except NaN: the payload of a sum of two NaNs is not specified.
template <class T>
T random_element(std::mt19937_64& random) {
  if constexpr (std::is_same_v<T, bool>) {
    return random() & 1;
  } else {
    T value;
    do {
      const auto bits = random();
      std::memcpy(static_cast<void*>(&value), &bits, sizeof value);
    } while (naive::widen(value) != naive::widen(value));
    return value;
  }
}

template <class T>
std::vector<std::vector<T>> random_sources(std::size_t sources,
                                           std::size_t count) {
  std::mt19937_64 random(sources * 10007 + count);
  std::vector<std::vector<T>> all(sources, std::vector<T>(count));
  for (auto& source : all)
    for (std::size_t i = 0; i < count; ++i)
      source[i] = random_element<T>(random);
  return all;
}

// KernelBytes with guards at both ends, starting `shift` bytes off an aligned
// address.
class KernelBytes {
 public:
  KernelBytes(std::size_t bytes, std::size_t shift)
      : shift_(shift + kGuard), bytes_(bytes) {
    memory_.assign(bytes + shift_ + kGuard, kMark);
  }
  template <class T>
  KernelBytes(const std::vector<T>& values, std::size_t shift)
      : KernelBytes(values.size() * sizeof(T), shift) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const T value = values[i];
      std::memcpy(data() + i * sizeof(T), &value, sizeof(T));
    }
  }
  unsigned char* data() { return memory_.data() + shift_; }
  bool is_guarded() const {
    for (std::size_t i = 0; i < memory_.size(); ++i)
      if ((i < shift_ || i >= shift_ + bytes_) && memory_[i] != kMark)
        return false;
    return true;
  }
  template <class T>
  bool holds(const std::vector<T>& values) {
    KernelBytes wanted(values, 0);
    return bytes_ == wanted.bytes_ &&
           std::memcmp(data(), wanted.data(), bytes_) == 0;
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr unsigned char kMark = 0xa5;
  std::size_t shift_;
  std::size_t bytes_;
  std::vector<unsigned char> memory_;
};

struct KernelCase {
  Reduction how;
  std::size_t sources;
  std::size_t outputs;
  std::size_t count;
  bool in_place;
  std::size_t shift;
  bool stream = false;  // for the tables only; reduce() decides itself
};

std::ostream& operator<<(std::ostream& out, const KernelCase& it) {
  return out << name_of(it.how.dtype) << ' ' << name_of(it.how.op) << '/'
             << it.how.divisor << ", " << it.sources << " sources, "
             << it.outputs << (it.in_place ? " in-place" : "") << " outputs, "
             << it.count << " elements, shift " << it.shift;
}

using Run = std::function<void(const KernelCase&, std::vector<const void*>&,
                               std::vector<void*>&)>;

void run_public(const KernelCase& it, std::vector<const void*>& sources,
                std::vector<void*>& outputs) {
  reduce(it.how, sources, outputs, it.count);
}

// All functions that can run `it`: reduce(), and each table separately.
std::vector<std::pair<std::string, Run>> runs_of(const KernelCase& it) {
  std::vector<std::pair<std::string, Run>> runs{{"reduce()", run_public}};
  if (it.sources == 1 && it.how.divisor == 1) return runs;
  for (const ReduceTable* table : supported_tables())
    runs.emplace_back(table->name, [table](auto& c, auto& from, auto& to) {
      const auto& row = table->functions[static_cast<int>(c.how.dtype)];
      row[static_cast<int>(c.how.op)]({from.data(), from.size(), to.data(),
                                       to.size(), c.count, c.how.divisor,
                                       c.stream});
    });
  return runs;
}

template <class T>
void expect_result(const KernelCase& it,
                   const std::vector<std::vector<T>>& values,
                   const std::vector<T>& wanted) {
  for (const auto& [name, run] : runs_of(it)) {
    std::vector<KernelBytes> buffers;
    for (std::size_t k = 0; k < it.sources; ++k)
      buffers.emplace_back(values[k], it.shift * k);
    const std::size_t first = it.in_place ? 0 : it.sources;
    while (buffers.size() < first + it.outputs)
      buffers.emplace_back(it.count * sizeof(T), it.shift * buffers.size());
    std::vector<const void*> sources;
    std::vector<void*> outputs;
    for (std::size_t k = 0; k < it.sources; ++k)
      sources.push_back(buffers[k].data());
    for (std::size_t k = 0; k < it.outputs; ++k)
      outputs.push_back(buffers[first + k].data());
    run(it, sources, outputs);
    for (std::size_t k = 0; k < it.outputs; ++k)
      EXPECT_TRUE(buffers[first + k].holds(wanted))
          << name << ": " << it << ": output " << k;
    for (const KernelBytes& buffer : buffers)
      EXPECT_TRUE(buffer.is_guarded()) << name << ": " << it;
  }
}

template <class T>
void expect_naive(const KernelCase& it) {
  const auto values = random_sources<T>(it.sources, it.count);
  std::vector<T> wanted(it.count);
  for (std::size_t i = 0; i < it.count; ++i)
    wanted[i] = naive::naive_element(it.how.op, it.how.divisor, values, i);
  expect_result(it, values, wanted);
}

// `values[k]` is the one element of source k.
template <class T>
void expect_element(Reduction how, const std::vector<T>& values, T wanted) {
  how.dtype = dtype_of<T>;
  // Enough copies for whole vectors and a tail.
  constexpr std::size_t kCount = 67;
  std::vector<std::vector<T>> sources;
  for (const T& value : values) sources.emplace_back(kCount, value);
  expect_result({how, values.size(), 1, kCount, false, 0}, sources,
                std::vector<T>(kCount, wanted));
}

template <class T>
class ReduceKernels : public ::testing::Test {
 public:
  template <class F>
  static void for_each_op(F call) {
    for (int i = 0; i < kReduceOpCount; ++i)
      if (is_defined(static_cast<ReduceOp>(i), dtype_of<T>))
        call(Reduction{dtype_of<T>, static_cast<ReduceOp>(i), 1});
  }
};
using Elements =
    ::testing::Types<double, float, Half, BFloat16, std::int64_t, std::int32_t,
                     std::int16_t, std::int8_t, std::uint8_t, bool>;
TYPED_TEST_SUITE(ReduceKernels, Elements);

TYPED_TEST(ReduceKernels, EveryWidthGivesTheBitsOfOneElementAtATime) {
  this->for_each_op([](const Reduction& how) {
    for (std::size_t sources : {1, 2, 3, 4, 5})
      for (std::size_t count : {0, 1, 7, 64, 1000, 4099})
        expect_naive<TypeParam>({how, sources, 1, count, false, 0});
  });
}

TYPED_TEST(ReduceKernels, BuffersMayStartAnywhere) {
  this->for_each_op([](const Reduction& how) {
    for (std::size_t shift : {sizeof(TypeParam), std::size_t{1}})
      for (std::size_t sources : {2, 3})
        expect_naive<TypeParam>({how, sources, 2, 1000, false, shift});
  });
}

TYPED_TEST(ReduceKernels, OutputsMayBeSources) {
  this->for_each_op([](const Reduction& how) {
    for (std::size_t sources : {1, 2, 3, 5, 9})
      for (std::size_t outputs = 1; outputs <= sources; ++outputs)
        expect_naive<TypeParam>({how, sources, outputs, 4099, true, 0});
  });
}

TYPED_TEST(ReduceKernels, MoreOutputsThanSourcesAndNone) {
  this->for_each_op([](const Reduction& how) {
    expect_naive<TypeParam>({how, 2, 5, 4099, false, 0});
    expect_naive<TypeParam>({how, 1, 3, 4099, false, 0});
    expect_naive<TypeParam>({how, 3, 3, 1000, false, 0});
  });
  const TypeParam value{};
  const void* source = &value;
  EXPECT_NO_THROW(reduce({dtype_of<TypeParam>}, std::span(&source, 1), {}, 1));
}

TYPED_TEST(ReduceKernels, StreamingGivesTheSameBits) {
  const Reduction how{dtype_of<TypeParam>};
  for (std::size_t sources : {2, 3, 5})
    for (std::size_t outputs : {1, 2})
      for (std::size_t shift : {0, 1, 8})
        for (std::size_t count : {0, 5, 4099})
          expect_naive<TypeParam>(
              {how, sources, outputs, count, false, shift, /*stream=*/true});
}

TYPED_TEST(ReduceKernels, DividesOnceAtTheEnd) {
  if (dtype_of<TypeParam> == DType::kBool) return;
  if constexpr (!std::is_same_v<TypeParam, bool>) {
    for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kAvg})
      for (int divisor : {2, 3, 8, 100, 257, 1 << 30, 2147483647})
        for (std::size_t sources : {1, 2, 4})
          for (std::size_t outputs : {1, 2, 4})
            expect_naive<TypeParam>({{dtype_of<TypeParam>, op, divisor},
                                     sources,
                                     outputs,
                                     1000,
                                     outputs <= sources,
                                     0});
  }
}

// Large enough that reduce() uses streaming stores.
TEST(ReduceKernels, LargeResultsArriveWhole) {
  constexpr std::size_t kCount = (std::size_t{33} << 20) / sizeof(float) + 3;
  const std::vector<float> ones(kCount, 1), twos(kCount, 2);
  std::vector<float> sum(kCount + 2, -1);
  const std::array<const void*, 2> sources{ones.data(), twos.data()};
  const std::array<void*, 1> outputs{sum.data() + 1};
  reduce({DType::kF32, ReduceOp::kSum}, sources, outputs, kCount);
  EXPECT_EQ(std::count(sum.begin(), sum.end(), 3.0f),
            static_cast<std::ptrdiff_t>(kCount));
  EXPECT_EQ(sum.front(), -1);
  EXPECT_EQ(sum.back(), -1);
}

TEST(ReduceKernels, IntegersAverageTowardsZero) {
  const Reduction average{.op = ReduceOp::kAvg, .divisor = 2};
  expect_element<std::int8_t>(average, {-2, -1}, -1);
  expect_element<std::int16_t>(average, {-2, -1}, -1);
  expect_element<std::int32_t>(average, {2, 1}, 1);
  expect_element<std::int32_t>(average, {-7, 0}, -3);
  expect_element<std::int64_t>(average, {-7, 0}, -3);
  expect_element<std::uint8_t>(average, {250, 5}, 127);
}

TEST(ReduceKernels, EveryShortDividesRightly) {
  std::vector<std::int16_t> all(65536), zeros(65536), wanted(65536);
  for (int divisor : {2, 3, 7, 10, 127, 1000, 32767, 32768}) {
    for (int i = 0; i < 65536; ++i) {
      all[i] = static_cast<std::int16_t>(i - 32768);
      wanted[i] = static_cast<std::int16_t>((i - 32768) / divisor);
    }
    expect_result<std::int16_t>(
        {{DType::kI16, ReduceOp::kAvg, divisor}, 2, 1, 65536, false, 0},
        {all, zeros}, wanted);
  }
}

TEST(ReduceKernels, IntegersWrapAround) {
  expect_element<std::int8_t>({.op = ReduceOp::kSum}, {127, 1}, -128);
  expect_element<std::int8_t>({.op = ReduceOp::kProduct}, {-128, -1}, -128);
  expect_element<std::int8_t>({.op = ReduceOp::kAvg, .divisor = 2}, {100, 100},
                              -28);
  expect_element<std::uint8_t>({.op = ReduceOp::kSum}, {200, 100}, 44);
  constexpr auto kLeast = std::numeric_limits<std::int64_t>::min();
  expect_element<std::int64_t>({.op = ReduceOp::kSum}, {kLeast, -1},
                               std::numeric_limits<std::int64_t>::max());
  expect_element<std::int16_t>({.op = ReduceOp::kProduct}, {-1, -1, -1}, -1);
}

TEST(ReduceKernels, HalvesAreRoundedOnlyOnce) {
  // In f16 the numbers from 2048 on are 2 apart: 2048 + 1 rounds back to 2048,
  // twice, but 2048 + (1 + 1) is a half. In bf16 likewise from 256 on.
  const auto half = [](float value) { return to_half(value); };
  expect_element<Half>({}, {half(2048), half(1), half(1)}, half(2050));
  const auto brain = [](float value) { return to_bfloat16(value); };
  expect_element<BFloat16>({}, {brain(256), brain(1), brain(1)}, brain(258));
  // The sum is too large for a half, the average is not.
  expect_element<Half>({.op = ReduceOp::kAvg, .divisor = 2},
                       {half(60000), half(60000)}, half(60000));
}

template <class T>
void expect_nan_wins(T nan, T one) {
  for (ReduceOp op :
       {ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kSum, ReduceOp::kProduct}) {
    expect_element<T>({.op = op}, {nan, one}, nan);
    expect_element<T>({.op = op}, {one, nan}, nan);
    expect_element<T>({.op = op}, {one, nan, one}, nan);
    expect_element<T>({.op = op}, {nan, one, one, one}, nan);
  }
}

// In two parts with f32 partial results, for every table: the same result as in
// one step, since the additions are the same.
template <class T>
void expect_partials(const ReduceTable* table, ReduceOp op, int sources,
                     std::size_t count) {
  const int divisor = op == ReduceOp::kAvg ? sources : 1;
  SCOPED_TRACE(testing::Message() << table->name << ", " << sources
                                  << " sources, " << count << " elements");
  const auto values =
      random_sources<T>(static_cast<std::size_t>(sources), count);
  std::vector<T> wanted(count);
  std::vector<float> partial(count + 1, 7);
  std::vector<float> rest(count);
  for (std::size_t i = 0; i < count; ++i) {
    float sum = to_float(values[0][i]);
    for (std::size_t k = 1; k + 1 < values.size(); ++k)
      sum = naive::naive_float(op, sum, to_float(values[k][i]));
    rest[i] = to_float(values.back()[i]);
    wanted[i] = naive::narrow<T>(naive::naive_float(op, sum, rest[i]) /
                                 static_cast<float>(divisor));
  }
  const auto& functions = table->partials[dtype_of<T> == DType::kF16 ? 0 : 1];
  std::vector<const void*> first;
  for (std::size_t k = 0; k + 1 < values.size(); ++k)
    first.push_back(values[k].data());
  void* const partials[] = {partial.data()};
  functions.made[static_cast<std::size_t>(op)](
      {first.data(), first.size(), partials, 1, count, 1});
  std::vector<T> result(count + 1, T{0x1234});
  const void* both[] = {partial.data(), rest.data()};
  void* const results[] = {result.data()};
  functions.finished[static_cast<std::size_t>(op)](
      {both, 2, results, 1, count, divisor});
  EXPECT_EQ(partial.back(), 7);
  EXPECT_EQ(result.back(), T{0x1234});
  result.pop_back();
  for (std::size_t i = 0; i < count; ++i)
    if (std::isnan(to_float(wanted[i])) && std::isnan(to_float(result[i])))
      result[i] = wanted[i];  // infinities that cancel: the payload is free
  EXPECT_TRUE(result == wanted);
}

TEST(ReduceKernels, PartialResultsOfHalvesAreNotRounded) {
  for (const ReduceTable* table : supported_tables())
    for (const auto op : {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProduct})
      for (const int sources : {2, 3, 4, 5, 6, 9})
        for (const std::size_t count : {0, 1, 15, 16, 17, 33, 5000}) {
          expect_partials<Half>(table, op, sources, count);
          expect_partials<BFloat16>(table, op, sources, count);
        }
}

TEST(ReduceKernels, PartialResultsOfHalvesByTheirFunctions) {
  const Reduction how{DType::kF16, ReduceOp::kAvg, 2};
  EXPECT_TRUE(has_wide_partials(how));
  EXPECT_FALSE(has_wide_partials({DType::kF16, ReduceOp::kMax}));
  EXPECT_FALSE(has_wide_partials({DType::kF32, ReduceOp::kSum}));
  const std::vector<Half> large(3, to_half(60000));
  const void* sources[] = {large.data(), large.data()};
  std::vector<float> sum(3);
  reduce_to_partials(how, sources, sum.data(), 3);
  EXPECT_EQ(sum, std::vector<float>(3, 2 * to_float(large[0])));
  std::vector<Half> result(3);
  const void* sums[] = {sum.data()};
  reduce_partials(how, sums, result.data(), 3);
  EXPECT_EQ(result, large);
}

TEST(ReduceKernels, NaNIsNeverLost) {
  expect_nan_wins(std::numeric_limits<double>::quiet_NaN(), 1.0);
  expect_nan_wins(std::numeric_limits<float>::quiet_NaN(), 1.0f);
  expect_nan_wins(Half{0x7e01}, to_half(1));
  expect_nan_wins(BFloat16{0xffc1}, to_bfloat16(1));
}

TEST(ReduceKernels, TablesCoverWhatIsDefined) {
  for (const ReduceTable* table : supported_tables())
    for (int dtype = 0; dtype < kDTypeCount; ++dtype)
      for (int op = 0; op < kReduceOpCount; ++op)
        EXPECT_EQ(
            table->functions[dtype][op] != nullptr,
            is_defined(static_cast<ReduceOp>(op), static_cast<DType>(dtype)))
            << table->name << ' ' << dtype << ' ' << op;
}

std::string message_of(const Reduction& how, std::size_t sources = 2) {
  std::vector<const void*> from(sources, &how);
  return error_of<UsageError>([&] { reduce(how, from, {}, 0); });
}

TEST(ReduceKernels, WhatIsNotDefinedIsAnErrorThatNamesBoth) {
  const std::string text = message_of({DType::kF16, ReduceOp::kBitXor});
  EXPECT_NE(text.find("'bxor'"), std::string::npos) << text;
  EXPECT_NE(text.find("'f16'"), std::string::npos) << text;
  EXPECT_NE(message_of({DType::kBool, ReduceOp::kAvg}), "");
  EXPECT_NE(message_of({DType::kF32, ReduceOp::kSum, 0}), "");
  EXPECT_NE(message_of({DType::kF32, ReduceOp::kMax, 2}), "");
  EXPECT_NE(message_of({DType::kF32, ReduceOp::kSum}, /*sources=*/0), "");
  EXPECT_EQ(message_of({DType::kF32, ReduceOp::kSum, 2}), "");
}

}  // namespace
}  // namespace sheaf::comm

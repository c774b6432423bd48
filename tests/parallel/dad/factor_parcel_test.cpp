#include "sheaf/parallel/dad/factor_parcel.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/parallel/dad/factor_parts.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

const BlockKey kSomeBlock{7, 3, {2, 3, 5, 11, 13, true}};

// One part of each kind.
FactorParcel any_parcel() {
  FactorParcel parcel;
  parcel.identity = -17;
  parcel.place = {3, 4};
  parcel.remainders = {5, 9};
  FactorPart whole = factor_part({0, 1, whole_weight(3, 2)}, at::rand({4, 3}),
                                 at::rand({4, 2}).relu());
  whole.bias_sum = at::rand({2});
  FactorPart lookup = factor_part({2, -1, whole_table(9, 2)},
                                  at::tensor({8, 0, 8}, at::kLong).view({3, 1}),
                                  at::rand({3, 2}));
  FactorPart derived;
  derived.block = {3, -1, whole_weight(3, 2)};
  derived.source = {kSomeBlock, Activation::kTanh};
  FactorPart late =
      factor_part({4, -1, whole_weight(3, 2)}, {}, at::rand({1, 2}));
  late.voids = at::tensor({0, 2, 5, 1}, at::kLong).view({2, 2});
  parcel.parts = {whole, lookup, derived, late};
  return parcel;
}

void expect_equal(const at::Tensor& got, const at::Tensor& want) {
  ASSERT_EQ(got.defined(), want.defined());
  if (want.defined()) EXPECT_TRUE(got.equal(want)) << got << want;
}

TEST(FactorParcel, BlocksBecomeNumbersAndBack) {
  const Numbers numbers = numbers_of(kSomeBlock);
  EXPECT_EQ(numbers, (Numbers{7, 3, 2, 3, 5, 11, 13, 1}));
  EXPECT_TRUE(block_key(numbers) == kSomeBlock);
  EXPECT_THROW(block_key({1, 2, 3}), InternalError);
}

TEST(FactorParcel, ArrivesAsItWasSent) {
  for (const bool skips_zeros : {false, true}) {
    const WireFormat format{.skips_zeros = skips_zeros};
    FactorParcel sent = any_parcel();
    const FactorMessage message = encode_parcel(sent, format);
    const FactorParcel got = decode_parcel(message, format);
    EXPECT_EQ(got.identity, sent.identity);
    EXPECT_TRUE(got.place == sent.place);
    EXPECT_EQ(got.remainders, sent.remainders);
    ASSERT_EQ(got.parts.size(), sent.parts.size());
    for (std::size_t i = 0; i < got.parts.size(); ++i) {
      SCOPED_TRACE(i);
      const FactorPart& one = got.parts[i];
      EXPECT_TRUE(one.block == sent.parts[i].block);
      EXPECT_TRUE(one.source.above == sent.parts[i].source.above);
      EXPECT_EQ(one.source.activation, sent.parts[i].source.activation);
      EXPECT_EQ(one.bytes, sent.parts[i].bytes);
      expect_equal(one.factors.inputs, sent.parts[i].factors.inputs);
      expect_equal(one.factors.deltas, sent.parts[i].factors.deltas);
      expect_equal(one.bias_sum, sent.parts[i].bias_sum);
      expect_equal(one.voids, sent.parts[i].voids);
    }
  }
}

TEST(FactorParcel, MayBeEmpty) {
  FactorParcel sent;
  const FactorMessage message = encode_parcel(sent, {});
  EXPECT_EQ(message.bytes.numel(), 0);
  const FactorParcel got = decode_parcel(message, {});
  EXPECT_TRUE(got.parts.empty());
  EXPECT_TRUE(got.remainders.empty());
}

TEST(FactorParcel, HasTheNumberOfBytesInItsHeader) {
  FactorParcel sent = any_parcel(), nothing;
  const FactorMessage message = encode_parcel(sent, {});
  std::int64_t total = 0;
  for (const FactorPart& part : sent.parts) total += part.bytes;
  EXPECT_EQ(message.bytes.numel(), total);
  EXPECT_EQ(sent.parts[0].bytes, 4 * (4 * 3 + 4 * 2 + 2));
  EXPECT_EQ(sent.parts[1].bytes, 3 * 8 + 4 * 3 * 2);
  EXPECT_EQ(sent.parts[2].bytes, 0);
  EXPECT_EQ(sent.parts[3].bytes, 4 * 2 + 8 * 4);
  EXPECT_EQ(payloads_of({message.header, encode_parcel(nothing, {}).header}),
            (std::vector<std::size_t>{static_cast<std::size_t>(total), 0}));
}

// The sum of a bias, indices and voids are not rounded.
TEST(FactorParcel, SixteenBitsAreForFactorsOnly) {
  const WireFormat format{.type = at::kHalf};
  const double value = 1 + 0x1p-12;  // rounded to 1 in f16
  FactorParcel sent;
  sent.parts.push_back(factor_part({0, 1, whole_weight(3, 2)},
                                   at::full({4, 3}, value),
                                   at::full({4, 2}, value)));
  sent.parts[0].bias_sum = at::full({2}, value);
  sent.parts.push_back(factor_part({2, -1, whole_table(5000, 2)},
                                   at::full({1, 1}, 4099, at::kLong),
                                   at::full({1, 2}, value)));
  const FactorParcel got = decode_parcel(encode_parcel(sent, format), format);
  expect_equal(got.parts[0].factors.inputs, at::ones({4, 3}));
  expect_equal(got.parts[0].factors.deltas, at::ones({4, 2}));
  expect_equal(got.parts[0].bias_sum, sent.parts[0].bias_sum);
  expect_equal(got.parts[1].factors.inputs, sent.parts[1].factors.inputs);
  EXPECT_EQ(got.parts[0].bytes, 2 * (4 * 3 + 4 * 2) + 4 * 2);
}

TEST(FactorParcel, RowsAreAppended) {
  Factors all;
  append(all, {});
  EXPECT_FALSE(all.inputs.defined());
  append(all, {at::full({1, 3}, 1.0), at::full({1, 2}, 2.0)});
  append(all, {at::full({2, 3}, 3.0), at::full({2, 2}, 4.0)});
  append(all, {});
  expect_equal(all.inputs.select(1, 0), at::tensor({1.f, 3.f, 3.f}));
  expect_equal(all.deltas.select(1, 1), at::tensor({2.f, 4.f, 4.f}));
}

TEST(FactorParcel, StackingOneMatrixCopiesNothing) {
  const at::Tensor one = at::rand({2, 3}), other = at::rand({1, 3});
  EXPECT_TRUE(stacked({one}).is_same(one));
  expect_equal(stacked({one, other}), at::cat({one, other}));
}

}  // namespace
}  // namespace sheaf::parallel

#include "sheaf/parallel/dad/factor_message.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "sheaf/comm/group/world.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;

TEST(FactorMessage, NumbersOfAnyLengthReachAll) {
  for (const Where where : {Where::kAllGather, Where::kStar})
    for (const int length : {0, 1, 63, 64, 500})
      run_threads(3, [&](const Group& group) {
        Numbers mine(static_cast<std::size_t>(length * group.rank()),
                     group.rank());
        const auto all = share_numbers(group, where, mine);
        ASSERT_EQ(all.size(), 3);
        for (std::size_t r = 0; r < 3; ++r)
          EXPECT_EQ(all[r], Numbers(static_cast<std::size_t>(length) * r,
                                    static_cast<std::int64_t>(r)));
      });
}

TEST(FactorMessage, MatricesComeOutAsTheyWentIn) {
  for (const auto type : {at::kFloat, at::kDouble})
    for (const double zeros : {0.0, 0.02, 0.5, 1.0})
      for (const int rows : {0, 1, 7, 40}) {
        at::Tensor matrix = at::randn({rows, 33}, type);
        matrix.masked_fill_(at::rand({rows, 33}) < zeros, 0);
        for (const bool skips : {false, true}) {
          const WireFormat format{.skips_zeros = skips};
          const at::Tensor bytes = encode(matrix.t().contiguous().t(), format);
          EXPECT_LE(bytes.numel(), static_cast<std::int64_t>(matrix.nbytes()));
          EXPECT_TRUE(
              at::equal(decode(bytes, matrix.sizes(), type, format), matrix));
        }
      }
}

TEST(FactorMessage, HalfTheZerosHalfTheBytes) {
  const at::Tensor matrix = at::relu(at::randn({64, 512}));
  const auto bytes = encode(matrix, {.skips_zeros = true}).numel();
  EXPECT_LT(bytes, 0.6 * static_cast<double>(matrix.nbytes()));
}

TEST(FactorMessage, SixteenBitsOnTheWire) {
  const at::Tensor matrix = at::relu(at::randn({20, 31}));
  for (const auto type : {at::kHalf, at::kBFloat16})
    for (const bool skips : {false, true}) {
      const WireFormat format{type, skips};
      const at::Tensor bytes = encode(matrix, format);
      EXPECT_LE(bytes.numel(), matrix.numel() * 2);
      EXPECT_TRUE(at::equal(decode(bytes, matrix.sizes(), at::kFloat, format),
                            matrix.to(type).to(at::kFloat)));
    }
}

}  // namespace
}  // namespace sheaf::parallel

#include "sheaf/spatial/ops/resampling.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>

namespace sheaf::spatial {
namespace {

// The values in one of the rows.
std::vector<std::int64_t> list_of(const at::Tensor& image, std::int64_t row) {
  const at::Tensor list = image.to(at::kLong).contiguous();
  const std::int64_t columns = list.size(3);
  const auto* first = list.data_ptr<std::int64_t>() + row * columns;
  return {first, first + columns};
}

// Compares with libtorch's result for an image whose columns hold their own
// indices, and for such a gradient.
void expect_as_libtorch(std::int64_t inputs, std::int64_t outputs,
                        std::int64_t channels, at::ScalarType type,
                        at::MemoryFormat format) {
  const Resampling rule =
      nearest_resampling({.axes = {{2, 3}, {inputs, outputs}},
                          .channels = channels,
                          .order = format == at::MemoryFormat::ChannelsLast
                                       ? MemoryOrder::kChannelsLast
                                       : MemoryOrder::kUsual,
                          .type = type},
                         /*which=*/1);
  const auto numbers = [&](std::int64_t rows, std::int64_t columns) {
    return at::arange(columns, type)
        .expand({1, channels, rows, columns})
        .contiguous(format);
  };
  const at::Tensor output =
      at::upsample_nearest2d(numbers(2, inputs), {3, outputs});
  ASSERT_EQ(rule.low, list_of(output, 2)) << inputs << " to " << outputs;
  const auto& places = rule.gradient.empty() ? rule.low : rule.gradient;
  std::vector<std::int64_t> wanted(static_cast<std::size_t>(inputs));
  for (std::size_t o = 0; o < places.size(); ++o)
    wanted[static_cast<std::size_t>(places[o])] += static_cast<std::int64_t>(o);
  const at::Tensor gradient = at::upsample_nearest2d_backward(
      numbers(2, outputs), {2, outputs}, {1, channels, 2, inputs});
  ASSERT_EQ(wanted, list_of(gradient, 1)) << inputs << " to " << outputs;
}

// Whether a position depends on the ratio being a float or a double.
bool is_rounded(std::int64_t inputs, std::int64_t outputs) {
  const float narrow = static_cast<float>(inputs) / static_cast<float>(outputs);
  const double wide =
      static_cast<double>(inputs) / static_cast<double>(outputs);
  for (std::int64_t o = 0; o < outputs; ++o)
    if (std::floor(narrow * static_cast<float>(o)) !=
        std::floor(wide * static_cast<double>(o)))
      return true;
  return false;
}

// All pairs of sizes up to 256: in both types if they may differ, otherwise
// alternating.
TEST(Resampling, NearestPlacesAreLibtorchsForAllSizes) {
  const at::NoGradGuard no_grad;
  int rounded = 0;
  for (std::int64_t inputs = 1; inputs <= 256; ++inputs)
    for (std::int64_t outputs = 1; outputs <= 256; ++outputs) {
      const bool are_both = is_rounded(inputs, outputs);
      rounded += are_both ? 1 : 0;
      for (const at::ScalarType type : {at::kFloat, at::kDouble})
        if (are_both || (type == at::kFloat) == ((inputs + outputs) % 2 == 0))
          expect_as_libtorch(inputs, outputs, /*channels=*/1 + inputs % 2, type,
                             at::MemoryFormat::Contiguous);
    }
  EXPECT_GT(rounded, 1000);
}

// The pairs that depend on the rounding of the type, in all types and kernels.
TEST(Resampling, NearestPlacesWhereRoundingDecides) {
  for (const auto& [inputs, outputs] :
       {std::pair{112, 96}, {112, 48}, {200, 96}, {49, 98}, {98, 49}})
    for (const at::ScalarType type : {at::kFloat, at::kDouble})
      for (const std::int64_t channels : {1, 2, 3, 4, 9})
        for (const at::MemoryFormat format :
             {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast})
          expect_as_libtorch(inputs, outputs, channels, type, format);
}

}  // namespace
}  // namespace sheaf::spatial

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/matrix/portable_product.hpp"

namespace sheaf::parallel {
namespace {

bool describes(int device, const std::string& text) {
  return describe_products(device).find(text) != std::string::npos;
}

TEST(ProductIdentity, ChangesWithTheNumberOfThreads) {
  at::set_num_threads(1);
  const auto one = product_identity(-1);
  EXPECT_EQ(product_identity(-1), one);
  at::set_num_threads(2);
  EXPECT_NE(product_identity(-1), one);
  EXPECT_TRUE(describes(-1, "2 threads"));
  at::set_num_threads(1);
}

TEST(ProductIdentity, DescribesTheLibraries) {
  for (const std::string& text :
       {std::string("BLAS "), std::string("processor"),
        concat("libtorch ", TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR)})
    EXPECT_TRUE(describes(-1, text)) << text;
}

// The precision of products matters on a GPU only.
TEST(ProductIdentity, OfAGpuChangesWithItsPrecision) {
  auto& context = at::globalContext();
  const bool is_highest =
      context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGHEST;
  ASSERT_TRUE(is_highest) << "the default";
  const auto on_cpu = product_identity(-1), on_gpu = product_identity(0);
  EXPECT_NE(on_gpu, on_cpu);
  context.setFloat32MatmulPrecision("high");
  EXPECT_EQ(product_identity(-1), on_cpu);
  EXPECT_NE(product_identity(0), on_gpu);
  context.setFloat32MatmulPrecision("highest");
}

}  // namespace
}  // namespace sheaf::parallel

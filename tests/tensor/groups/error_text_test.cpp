#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "sheaf/base/text.hpp"

namespace sheaf::tensor {
namespace {

TEST(ErrorText, OfLibtorchsOwnErrors) {
  try {
    at::mm(at::zeros({2, 3}), at::zeros({4, 5}));
    FAIL();
  } catch (const c10::Error& error) {
    EXPECT_EQ(one_line(error),
              "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)");
  }
}

}  // namespace
}  // namespace sheaf::tensor

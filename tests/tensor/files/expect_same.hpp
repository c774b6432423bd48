#pragma once
// Expects two lists of named tensors to be bitwise equal.

#include <gtest/gtest.h>

#include "sheaf/tensor/files/state_dict.hpp"

namespace sheaf::tensor {

inline void expect_same(const StateDict& a, const StateDict& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].first, b[i].first);
    EXPECT_EQ(a[i].second.scalar_type(), b[i].second.scalar_type());
    EXPECT_TRUE(at::equal(a[i].second, b[i].second)) << a[i].first;
  }
}

}  // namespace sheaf::tensor

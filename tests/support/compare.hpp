#pragma once
// Comparison of tensors that cannot pass by accident: NaN, empty lists, other
// names, shapes, types or numbers of tensors are failures of the test, whatever
// it expects of the difference.

#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace sheaf::test {

using Tensors = std::vector<at::Tensor>;
using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

constexpr double kNotComparable = std::numeric_limits<double>::infinity();

enum class Scale {
  kAbsolute,
  kRelative,  // relative to the largest element of the second tensor
};
enum class Nan { kFails, kMayBeEqual };  // the second: where bits are compared

// The reason why two tensors cannot be compared; empty if they can.
inline std::string mismatch(const at::Tensor& a, const at::Tensor& b) {
  const auto text = [](const at::Tensor& one) {
    std::ostringstream out;
    if (one.defined())
      out << one.sizes() << " " << one.scalar_type();
    else
      out << "undefined";
    return out.str();
  };
  const bool are_alike = a.defined() && b.defined() && a.sizes() == b.sizes() &&
                         a.scalar_type() == b.scalar_type();
  return are_alike ? "" : text(a) + " against " + text(b);
}

// The largest difference of two elements. Tensors that cannot be compared, and
// elements that are not finite, fail the test and give infinity. Two tensors
// without elements differ by 0.
inline double largest_difference(const at::Tensor& a, const at::Tensor& b,
                                 Scale scale = Scale::kAbsolute) {
  if (const std::string why = mismatch(a, b); !why.empty()) {
    ADD_FAILURE() << "tensors that cannot be compared: " << why;
    return kNotComparable;
  }
  if (a.numel() == 0) return 0;
  const at::Tensor x = a.detach().to(at::kCPU, at::kDouble);
  const at::Tensor y = b.detach().to(at::kCPU, at::kDouble);
  if (!at::isfinite(x).all().item<bool>() ||
      !at::isfinite(y).all().item<bool>()) {
    ADD_FAILURE() << "a number is not finite, in a tensor of " << a.sizes();
    return kNotComparable;
  }
  const double most = (x - y).abs().max().item<double>();
  if (scale == Scale::kAbsolute) return most;
  return most / (y.abs().max().item<double>() + 1e-30);
}

// Same, for two lists, neither of which may be empty.
inline double largest_difference(const Tensors& a, const Tensors& b,
                                 Scale scale = Scale::kAbsolute) {
  if (a.empty() || a.size() != b.size()) {
    ADD_FAILURE() << a.size() << " tensors against " << b.size();
    return kNotComparable;
  }
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, largest_difference(a[i], b[i], scale));
  return most;
}

// The tensors of both lists, if their names are equal and in the same order.
inline std::pair<Tensors, Tensors> matched(const NamedTensors& a,
                                           const NamedTensors& b) {
  std::pair<Tensors, Tensors> both;
  for (const auto& [name, tensor] : a) both.first.push_back(tensor);
  for (const auto& [name, tensor] : b) both.second.push_back(tensor);
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    EXPECT_EQ(a[i].first, b[i].first) << "tensors are compared by name";
  return both;
}

inline double largest_difference(const NamedTensors& a, const NamedTensors& b,
                                 Scale scale = Scale::kAbsolute) {
  const auto [x, y] = matched(a, b);
  return largest_difference(x, y, scale);
}

// Whether all bits are equal. Tensors that cannot be compared fail the test; so
// does NaN, unless it is allowed.
inline bool has_same_bits(const at::Tensor& a, const at::Tensor& b,
                          Nan nan = Nan::kFails) {
  if (const std::string why = mismatch(a, b); !why.empty()) {
    ADD_FAILURE() << "tensors that cannot be compared: " << why;
    return false;
  }
  const at::Tensor x = a.detach().cpu().contiguous();
  const at::Tensor y = b.detach().cpu().contiguous();
  if (nan == Nan::kFails && x.is_floating_point() &&
      (at::isnan(x).any().item<bool>() || at::isnan(y).any().item<bool>())) {
    ADD_FAILURE() << "NaN in a tensor of " << a.sizes();
    return false;
  }
  return x.nbytes() == 0 ||
         std::memcmp(x.data_ptr(), y.data_ptr(), x.nbytes()) == 0;
}

inline bool has_same_bits(const Tensors& a, const Tensors& b,
                          Nan nan = Nan::kFails) {
  if (a.empty() || a.size() != b.size()) {
    ADD_FAILURE() << a.size() << " tensors against " << b.size();
    return false;
  }
  bool are_same = true;
  for (std::size_t i = 0; i < a.size(); ++i)
    are_same = has_same_bits(a[i], b[i], nan) && are_same;
  return are_same;
}

inline bool has_same_bits(const NamedTensors& a, const NamedTensors& b,
                          Nan nan = Nan::kFails) {
  const auto [x, y] = matched(a, b);
  return has_same_bits(x, y, nan);
}

}  // namespace sheaf::test

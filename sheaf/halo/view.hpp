#pragma once
// A non-owning view of a tile's memory: samples, channels and up to three image
// axes, with any strides; copies and additions between views.

#include <array>
#include <cstddef>
#include <type_traits>

#include "sheaf/base/dtype.hpp"
#include "sheaf/halo/tiling.hpp"

namespace sheaf::halo {

template <class Byte>
struct BasicView {
  Byte* data = nullptr;  // the element at index 0 of all axes
  // Samples and channels, or any other two axes of planes.
  std::array<std::int64_t, 2> outer{1, 1};
  std::array<std::int64_t, 2> outer_stride{0, 0};  // all strides in elements
  std::array<std::int64_t, kMaxAxes> size{1, 1, 1};
  std::array<std::int64_t, kMaxAxes> stride{0, 0, 0};

  // A mutable view converts to a read-only one.
  operator BasicView<const Byte>() const requires(!std::is_const_v<Byte>) {
    return {data, outer, outer_stride, size, stride};
  }
  std::int64_t planes() const { return outer[0] * outer[1]; }
};

using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

// A contiguous view of the planes of a box in row-major order, the layout of
// packed messages and new tensors.
template <class Byte>
BasicView<Byte> contiguous_view(Byte* data, std::array<std::int64_t, 2> outer,
                                const Box& box) {
  const std::int64_t row = box[2].size();
  const std::int64_t plane = box[1].size() * row;
  return {data,
          outer,
          {outer[1] * box.volume(), box.volume()},
          {box[0].size(), box[1].size(), row},
          {plane, row, 1}};
}

// The part `part` of a view of `whole`; `part` must be inside of `whole`.
template <class Byte>
BasicView<Byte> part_of(BasicView<Byte> view, const Box& whole, const Box& part,
                        std::size_t element_bytes) {
  for (std::size_t axis = 0; axis < kMaxAxes; ++axis) {
    view.data += (part.axes[axis].begin - whole.axes[axis].begin) *
                 view.stride[axis] * static_cast<std::int64_t>(element_bytes);
    view.size[axis] = part.axes[axis].size();
  }
  return view;
}

// Copies and additions are between views of the same size; they throw
// UsageError if the sizes differ.

// The two views must not overlap in memory.
void copy_view(const ConstView& from, const View& to,
               std::size_t element_bytes);

// to += from, element by element; f16 and bf16 are added in f32. Throws
// UsageError for types that are not floating-point.
void add_view(const ConstView& from, const View& to, DType dtype);

void zero_view(const View& to, std::size_t element_bytes);

}  // namespace sheaf::halo

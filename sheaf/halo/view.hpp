#pragma once
// Memory of a tile: samples and channels, and up to three axes of an image,
// with any strides. A view does not own its memory.

#include <array>
#include <cstddef>
#include <type_traits>

#include "sheaf/halo/tiling.hpp"

namespace sheaf::halo {

template <class Byte>
struct BasicView {
  Byte* data = nullptr;  // the element at place 0 of all
  // Samples and channels, or whatever else there is of planes.
  std::array<std::int64_t, 2> outer{1, 1};
  std::array<std::int64_t, 2> outer_stride{0, 0};  // in elements, all of them
  std::array<std::int64_t, kMaxAxes> size{1, 1, 1};
  std::array<std::int64_t, kMaxAxes> stride{0, 0, 0};

  // A view that may be written can be read.
  operator BasicView<const Byte>() const requires(!std::is_const_v<Byte>) {
    return {data, outer, outer_stride, size, stride};
  }
  std::int64_t planes() const { return outer[0] * outer[1]; }
};

using View = BasicView<std::byte>;
using ConstView = BasicView<const std::byte>;

// Planes of a box one after the other, the last axis running fastest: what
// packed messages are, and fresh tensors.
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

// The part of a view of `whole` that is `part`, which lies in it.
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

}  // namespace sheaf::halo

#pragma once
// Memory passed to an operation: a pointer, an element count and an element
// type. Buffers do not own their memory.

#include <cstddef>
#include <ranges>
#include <span>
#include <type_traits>

#include "sheaf/base/dtype.hpp"

namespace sheaf::comm {

struct Buffer {
  void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kU8;

  Buffer() = default;
  Buffer(void* data_, std::size_t count_, DType dtype_)
      : data(data_), count(count_), dtype(dtype_) {}
  // Any contiguous range of elements: std::vector, std::array, std::span.
  template <std::ranges::contiguous_range Range>
  requires(!std::is_const_v<
           std::remove_reference_t<std::ranges::range_reference_t<Range>>>)
      Buffer(Range&& range)  // NOLINT: conversion is the purpose
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(dtype_of<std::ranges::range_value_t<Range>>) {}

  std::size_t bytes() const { return count * size_of(dtype); }
};

struct ConstBuffer {
  const void* data = nullptr;
  std::size_t count = 0;
  DType dtype = DType::kU8;

  ConstBuffer() = default;
  ConstBuffer(const void* data_, std::size_t count_, DType dtype_)
      : data(data_), count(count_), dtype(dtype_) {}
  ConstBuffer(const Buffer& buffer)  // NOLINT: conversion is the purpose
      : data(buffer.data), count(buffer.count), dtype(buffer.dtype) {}
  template <std::ranges::contiguous_range Range>
  ConstBuffer(const Range& range)  // NOLINT: conversion is the purpose
      : data(std::ranges::data(range)),
        count(std::ranges::size(range)),
        dtype(dtype_of<std::ranges::range_value_t<Range>>) {}

  std::size_t bytes() const { return count * size_of(dtype); }
};

}  // namespace sheaf::comm

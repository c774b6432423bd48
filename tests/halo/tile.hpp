#pragma once
// Test memory for a box of an image, in one of several memory orders.

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "sheaf/base/dtype.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/halo/view.hpp"

namespace sheaf::halo {

// One element: sample, channel, position in the image.
struct Place {
  std::array<std::int64_t, 2> outer;
  std::array<std::int64_t, kMaxAxes> at;

  Box box() const {
    Box box;
    for (std::size_t axis = 0; axis < kMaxAxes; ++axis)
      box.axes[axis] = {at[axis], at[axis] + 1};
    return box;
  }
};

// Small integers that vary by place; their sums are exact.
inline double exact_value(const Place& place, std::int64_t salt = 0) {
  const std::int64_t mixed = place.outer[0] * 5 + place.outer[1] * 7 +
                             place.at[0] * 11 + place.at[1] * 3 + place.at[2] +
                             salt * 13;
  return static_cast<double>(mixed % 17 - 8);
}

enum class Order {
  kPlain,         // samples, channels, axes
  kPadded,        // the same, with gaps after rows and planes
  kChannelsLast,  // samples, axes, channels
};
inline constexpr std::array kOrders{Order::kPlain, Order::kPadded,
                                    Order::kChannelsLast};

template <class T>
double value_of(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return to_float(value);
  else
    return static_cast<double>(value);
}

template <class T>
void store(T& at, double value) {
  if constexpr (std::is_same_v<T, Half>)
    at = to_half(static_cast<float>(value));
  else if constexpr (std::is_same_v<T, BFloat16>)
    at = to_bfloat16(static_cast<float>(value));
  else
    at = static_cast<T>(value);
}

template <class T>
class Tile {
 public:
  // The memory is in the arena of the group if one is given.
  Tile(const Box& box, std::array<std::int64_t, 2> outer, Order order,
       const comm::Group* arena = nullptr)
      : box_(box) {
    const std::int64_t gap = order == Order::kPadded ? 3 : 0;
    view_.outer = outer;
    for (std::size_t axis = 0; axis < kMaxAxes; ++axis)
      view_.size[axis] = box.axes[axis].size();
    std::int64_t step = order == Order::kChannelsLast ? outer[1] : 1;
    for (std::size_t axis = kMaxAxes; axis-- > 0;) {
      view_.stride[axis] = step;
      step *= view_.size[axis] + gap;
    }
    view_.outer_stride[1] = order == Order::kChannelsLast ? 1 : step;
    if (order != Order::kChannelsLast) step *= outer[1];
    view_.outer_stride[0] = step;
    const auto count = static_cast<std::size_t>(step * outer[0]) + 1;
    if (arena) {
      shared_ = arena->allocate<T>(count);
      memory_ = std::span(shared_.data(), count);
    } else {
      own_.resize(count);
      memory_ = own_;
    }
    for (T& element : memory_) store(element, kUntouched);
    view_.data = reinterpret_cast<std::byte*>(memory_.data());
  }

  const View& view() const { return view_; }
  const Box& box() const { return box_; }

  template <class Value>
  void fill(Value value) {
    for_each(
        [&](const Place& place, T& element) { store(element, value(place)); });
  }
  // Whether each element has the value of its place; reports the first
  // mismatch.
  template <class Value>
  testing::AssertionResult holds(Value value) {
    testing::AssertionResult result = testing::AssertionSuccess();
    for_each([&](const Place& place, T& element) {
      if (result && value_of(element) != value(place))
        result = testing::AssertionFailure()
                 << "plane " << place.outer[0] << "," << place.outer[1]
                 << " at " << place.at[0] << "," << place.at[1] << ","
                 << place.at[2] << " holds " << value_of(element) << ", not "
                 << value(place);
    });
    return result;
  }
  // Whether nothing was written between or after the elements.
  bool is_clean_around() {
    const std::vector<T> before(memory_.begin(), memory_.end());
    fill([](const Place&) { return kUntouched; });
    bool is_clean = true;
    for (const T& element : memory_)
      is_clean = is_clean && value_of(element) == kUntouched;
    std::copy(before.begin(), before.end(), memory_.begin());
    return is_clean;
  }
  template <class Body>
  void for_each(Body body) {
    Place place{};
    auto& [outer, at] = place;
    auto* base = reinterpret_cast<T*>(view_.data);
    for (outer[0] = 0; outer[0] < view_.outer[0]; ++outer[0])
      for (outer[1] = 0; outer[1] < view_.outer[1]; ++outer[1])
        for (at[0] = box_[0].begin; at[0] < box_[0].end; ++at[0])
          for (at[1] = box_[1].begin; at[1] < box_[1].end; ++at[1])
            for (at[2] = box_[2].begin; at[2] < box_[2].end; ++at[2])
              body(place, base[index(place)]);
  }

 private:
  static constexpr double kUntouched = 99;

  std::int64_t index(const Place& place) const {
    std::int64_t index = 0;
    for (std::size_t i = 0; i < 2; ++i)
      index += place.outer[i] * view_.outer_stride[i];
    for (std::size_t axis = 0; axis < kMaxAxes; ++axis)
      index += (place.at[axis] - box_.axes[axis].begin) * view_.stride[axis];
    return index;
  }

  Box box_;
  View view_;
  std::vector<T> own_;
  comm::SharedArray<T> shared_;
  std::span<T> memory_;
};

}  // namespace sheaf::halo

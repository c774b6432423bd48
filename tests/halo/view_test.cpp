#include "sheaf/halo/view.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "tests/halo/tile.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::halo {
namespace {

Box box_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  return {{Interval{0, a}, {0, b}, {0, c}}};
}

// Every memory order on both sides, and various short run lengths.
TEST(ViewTest, CopiesBetweenAllOrdersOfMemory) {
  for (const Order from : kOrders)
    for (const Order to : kOrders)
      for (const std::int64_t last : {1, 2, 3, 4, 6, 7, 33}) {
        const Box box = box_of(3, 2, last);
        Tile<float> source(box, {2, 3}, from);
        Tile<float> target(box, {2, 3}, to);
        source.fill([](const Place& place) { return exact_value(place); });
        copy_view(source.view(), target.view(), sizeof(float));
        EXPECT_TRUE(target.holds(
            [](const Place& place) { return exact_value(place); }));
        EXPECT_TRUE(target.is_clean_around());
      }
}

TEST(ViewTest, CopiesPartsOfElementsOfAllSizes) {
  const Box box = box_of(4, 5, 6);
  const Box part{{Interval{1, 3}, {2, 5}, {3, 4}}};
  const auto check = [&](auto example) {
    using T = decltype(example);
    Tile<T> source(box, {1, 2}, Order::kPadded);
    Tile<T> target(part, {1, 2}, Order::kPlain);
    source.fill([](const Place& place) { return exact_value(place); });
    copy_view(part_of(source.view(), box, part, sizeof(T)), target.view(),
              sizeof(T));
    EXPECT_TRUE(
        target.holds([](const Place& place) { return exact_value(place); }));
  };
  check(std::int8_t{});
  check(std::int16_t{});
  check(float{});
  check(double{});
}

template <class T>
void check_add() {
  for (const Order order : kOrders) {
    const Box box = box_of(2, 3, 5);
    Tile<T> source(box, {2, 2}, Order::kPlain);
    Tile<T> target(box, {2, 2}, order);
    source.fill([](const Place& place) { return exact_value(place); });
    target.fill([](const Place&) { return 3.0; });
    add_view(source.view(), target.view(), dtype_of<T>);
    EXPECT_TRUE(target.holds(
        [](const Place& place) { return exact_value(place) + 3; }));
    EXPECT_TRUE(target.is_clean_around());
  }
}

TEST(ViewTest, AddsFloatsOfAllSizes) {
  check_add<double>();
  check_add<float>();
  check_add<Half>();
  check_add<BFloat16>();
}

TEST(ViewTest, RefusesToAddOthers) {
  Tile<int> tile(box_of(1, 1, 2), {1, 1}, Order::kPlain);
  expect_throws<UsageError>(
      [&] { add_view(tile.view(), tile.view(), DType::kI32); },
      {"i32", "bf16"});
}

TEST(ViewTest, ZerosOnlyItsPart) {
  for (const Order order : kOrders) {
    const Box box = box_of(3, 4, 5);
    const Box part{{Interval{1, 2}, {0, 4}, {2, 5}}};
    Tile<double> tile(box, {2, 1}, order);
    tile.fill([](const Place&) { return 7.0; });
    zero_view(part_of(tile.view(), box, part, sizeof(double)), sizeof(double));
    EXPECT_TRUE(tile.holds([&](const Place& place) {
      return part.contains(place.box()) ? 0.0 : 7.0;
    }));
  }
}

TEST(ViewTest, ViewsOfOtherSizesAreErrors) {
  Tile<float> a(box_of(1, 2, 3), {1, 2}, Order::kPlain);
  Tile<float> b(box_of(1, 3, 2), {1, 2}, Order::kPlain);
  expect_throws<UsageError>([&] { copy_view(a.view(), b.view(), 4); },
                            {"1x2x3", "1x3x2"});
}

}  // namespace
}  // namespace sheaf::halo

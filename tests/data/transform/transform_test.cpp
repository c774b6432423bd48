#include "sheaf/data/transform/transform.hpp"

#include <gtest/gtest.h>

#include <set>

#include "tests/data/made_files.hpp"

namespace sheaf::data {
namespace {

using Indices = std::vector<std::int64_t>;

Indices first(std::int64_t count) {
  Indices indices;
  for (std::int64_t i = 0; i < count; ++i) indices.push_back(i);
  return indices;
}

at::Tensor applied(const TransformPtr& transform, const at::Tensor& images,
                   std::uint64_t seed = 0) {
  return transform->apply(images, first(images.size(0)), Random(seed));
}

// Each pixel has a different value.
at::Tensor made(Indices shape, at::ScalarType type = at::kFloat) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return at::arange(count, type).view(shape);
}

std::vector<TransformPtr> all_transforms() {
  return {to_float(),
          normalize({0.5}, {0.25}),
          pad(2),
          random_crop(3, 4, 1),
          center_crop(2, 2),
          horizontal_flip(),
          resize(7, 3),
          resize_shorter(6),
          compose({random_crop(4, 4, 1), horizontal_flip(), to_float()})};
}

TEST(Transform, ToFloatDividesBytes) {
  const at::Tensor bytes = at::arange(256, at::kByte).view({1, 1, 16, 16});
  EXPECT_TRUE(
      at::equal(applied(to_float(), bytes), bytes.to(at::kFloat).div(255)));
  const at::Tensor numbers = at::tensor({0.5, 300.0}, at::kDouble);
  EXPECT_TRUE(at::equal(applied(to_float(), numbers), numbers));
  EXPECT_THROW(applied(to_float(), at::zeros({2}, at::kLong)), UsageError);
}

TEST(Transform, NormalizesEachChannel) {
  const at::Tensor images = made({2, 3, 4, 5});
  const at::Tensor mean = at::tensor({1.0f, 2.0f, 3.0f}).view({1, 3, 1, 1});
  const at::Tensor std = at::tensor({0.5f, 0.3f, 7.0f}).view({1, 3, 1, 1});
  EXPECT_TRUE(at::equal(applied(normalize({1, 2, 3}, {0.5, 0.3, 7}), images),
                        images.sub(mean).div(std)));
  EXPECT_TRUE(
      at::equal(applied(normalize({2}, {4}), images), images.sub(2).div(4)));
  const at::Tensor bytes = made({1, 1, 4, 4}, at::kByte);
  EXPECT_TRUE(at::equal(applied(normalize({0.5}, {0.5}), bytes),
                        bytes.to(at::kFloat).div(255).sub(0.5).div(0.5)));
}

TEST(Transform, NormalizeRefusesWhatDoesNotFit) {
  EXPECT_THROW(normalize({1, 2}, {1}), UsageError);
  EXPECT_THROW(normalize({}, {}), UsageError);
  EXPECT_THROW(normalize({1}, {0}), UsageError);
  EXPECT_THROW(applied(normalize({1, 2}, {1, 2}), made({1, 3, 2, 2})),
               UsageError);
  EXPECT_THROW(applied(normalize({1}, {1}), made({3, 2, 2})), UsageError);
}

TEST(Transform, FormerNamesAreAliases) {
  const at::Tensor images = made({2, 1, 4, 4});
  EXPECT_TRUE(at::equal(applied(normalise({2}, {4}), images),
                        applied(normalize({2}, {4}), images)));
  EXPECT_TRUE(at::equal(applied(centre_crop(2, 2), images),
                        applied(center_crop(2, 2), images)));
}

TEST(Transform, Pads) {
  const at::Tensor images = made({2, 1, 2, 3}, at::kByte);
  const at::Tensor padded = applied(pad(2, 7), images);
  ASSERT_EQ(padded.sizes(), (Indices{2, 1, 6, 7}));
  EXPECT_TRUE(at::equal(padded.narrow(2, 2, 2).narrow(3, 2, 3), images));
  EXPECT_EQ(padded.sum().item<int>(),
            images.sum().item<int>() + 7 * (2 * 6 * 7 - 12));
  EXPECT_THROW(pad(-1), UsageError);
}

TEST(Transform, CropsTheMiddle) {
  const at::Tensor images = made({2, 2, 5, 4});
  EXPECT_TRUE(at::equal(applied(center_crop(2, 2), images),
                        images.narrow(2, 1, 2).narrow(3, 1, 2)));
  EXPECT_THROW(applied(center_crop(6, 2), images), UsageError);
  EXPECT_THROW(center_crop(0, 2), UsageError);
}

// The value of the first pixel gives the place of the crop of example i.
TEST(Transform, CropsAtEveryPlace) {
  const at::Tensor images = made({1, 2, 4, 5}).expand({400, 2, 4, 5});
  const at::Tensor crops = applied(random_crop(2, 3), images);
  ASSERT_EQ(crops.sizes(), (Indices{400, 2, 2, 3}));
  std::set<std::int64_t> places;
  for (std::int64_t i = 0; i < 400; ++i) {
    const auto corner = crops[i][0][0][0].item<std::int64_t>();
    places.insert(corner);
    ASSERT_TRUE(at::equal(
        crops[i], images[i].narrow(1, corner / 5, 2).narrow(2, corner % 5, 3)));
  }
  EXPECT_EQ(places.size(), 9u);
}

TEST(Transform, RandomCropPadsFirst) {
  const at::Tensor images = at::ones({200, 1, 2, 2}, at::kByte);
  const at::Tensor crops = applied(random_crop(2, 2, 1), images);
  std::set<int> sums;
  for (std::int64_t i = 0; i < 200; ++i)
    sums.insert(crops[i].sum().item<int>());
  EXPECT_EQ(sums, (std::set<int>{1, 2, 4}));
  EXPECT_THROW(applied(random_crop(5, 5, 1), images), UsageError);
}

TEST(Transform, FlipsSome) {
  const at::Tensor images = made({1, 1, 2, 3}).expand({1000, 1, 2, 3});
  EXPECT_TRUE(at::equal(applied(horizontal_flip(1), images), images.flip(3)));
  EXPECT_TRUE(at::equal(applied(horizontal_flip(0), images), images));
  const at::Tensor some = applied(horizontal_flip(0.25), images);
  const at::Tensor turned = (some == images.flip(3)).flatten(1).all(1);
  const at::Tensor kept = (some == images).flatten(1).all(1);
  EXPECT_TRUE((turned != kept).all().item<bool>());
  // 250 expected, standard deviation 14.
  EXPECT_NEAR(turned.sum().item<int>(), 250, 100);
  EXPECT_THROW(horizontal_flip(1.5), UsageError);
}

TEST(Transform, Resizes) {
  // 0, 100 at twice the width, with align_corners=False: 0, 25, 75, 100.
  const at::Tensor bytes = at::tensor({0, 100}, at::kByte).view({1, 1, 1, 2});
  EXPECT_TRUE(
      at::equal(applied(resize(1, 4), bytes),
                at::tensor({0, 25, 75, 100}, at::kByte).view({1, 1, 1, 4})));
  EXPECT_EQ(applied(resize_shorter(4), made({1, 1, 2, 6})).sizes(),
            (Indices{1, 1, 4, 12}));
  EXPECT_EQ(applied(resize_shorter(3), made({1, 1, 8, 6})).sizes(),
            (Indices{1, 1, 4, 3}));
  EXPECT_THROW(resize(0, 1), UsageError);
}

TEST(Transform, TakesNoRows) {
  for (const TransformPtr& transform : all_transforms()) {
    const at::Tensor some =
        applied(transform, at::zeros({2, 3, 5, 4}, at::kByte));
    const at::Tensor none =
        applied(transform, at::zeros({0, 3, 5, 4}, at::kByte));
    EXPECT_EQ(none.size(0), 0);
    EXPECT_EQ(none.sizes().slice(1), some.sizes().slice(1));
    EXPECT_EQ(none.scalar_type(), some.scalar_type());
  }
}

TEST(Transform, LeavesItsInputAlone) {
  for (const TransformPtr& transform : all_transforms()) {
    const at::Tensor images = made({6, 3, 4, 4});
    const at::Tensor before = images.clone();
    applied(transform, images);
    EXPECT_TRUE(at::equal(images, before));
  }
}

// An example gives the same result alone and in any batch.
TEST(Transform, DependsOnTheExampleAlone) {
  const at::Tensor images = made({12, 1, 6, 6});
  for (const TransformPtr& transform : all_transforms()) {
    const at::Tensor together = applied(transform, images, /*seed=*/5);
    for (std::int64_t i = 11; i >= 0; --i)
      EXPECT_TRUE(at::equal(
          transform->apply(images.narrow(0, i, 1), Indices{i}, Random(5))[0],
          together[i]));
  }
}

TEST(Transform, RandomNumbersDifferBetweenEpochsAndParts) {
  const TransformPtr crop = random_crop(2, 2);
  const at::Tensor images = made({50, 1, 6, 6});
  EXPECT_FALSE(at::equal(applied(crop, images, 1), applied(crop, images, 2)));
  // With a shared stream both parts would use the same random numbers.
  const at::Tensor twice =
      applied(compose({random_crop(5, 5), random_crop(4, 4)}), images);
  std::set<std::int64_t> places;
  for (std::int64_t i = 0; i < 50; ++i)
    places.insert(twice[i][0][0][0].item<std::int64_t>() - 36 * i);
  EXPECT_TRUE(places.count(1) && places.count(6));
}

TEST(Transform, ImagesLargerThanTheMemoryAreAnError) {
  const std::string text = usage_error([] {
    applied(resize(10000000, 10000000), made({2, 1, 4, 4}));
  });
  EXPECT_TRUE(contains(text, "2 images of 1x10000000x10000000") &&
              contains(text, "smaller"))
      << text;
}

TEST(Transform, ComposeDoesOneAfterTheOther) {
  const at::Tensor images = made({2, 1, 4, 4}, at::kByte);
  EXPECT_TRUE(at::equal(
      applied(compose({pad(1), to_float(), normalize({0.5}, {2})}), images),
      applied(normalize({0.5}, {2}), applied(pad(1), images))));
  EXPECT_THROW(compose({nullptr}), UsageError);
  EXPECT_THROW(pad(1)->apply(images, Indices{1}, Random()), UsageError);
}

}  // namespace
}  // namespace sheaf::data

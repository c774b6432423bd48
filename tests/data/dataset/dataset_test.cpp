#include "sheaf/data/dataset/dataset.hpp"

#include <gtest/gtest.h>

#include "sheaf/data/dataset/synthetic.hpp"
#include "sheaf/data/formats/array_files.hpp"
#include "sheaf/tensor/files/numpy.hpp"
#include "tests/data/made_files.hpp"

namespace sheaf::data {
namespace {

using Indices = std::vector<std::int64_t>;

TEST(TensorDataset, GivesRowsInTheOrderAsked) {
  const TensorDataset dataset(at::arange(12, at::kFloat).view({4, 3}),
                              at::tensor({3, 2, 1, 0}, at::kInt));
  Random random;
  const Batch batch = dataset.get(Indices{2, 0, 2}, random);
  EXPECT_TRUE(at::equal(
      batch.data,
      at::tensor({6, 7, 8, 0, 1, 2, 6, 7, 8}, at::kFloat).view({3, 3})));
  EXPECT_TRUE(at::equal(batch.target, at::tensor({1, 3, 1}, at::kLong)));
  EXPECT_EQ(batch.global_size, 3);
  EXPECT_EQ(batch.size(), 3);
  EXPECT_EQ(dataset.classes(), 4);
}

TEST(TensorDataset, GivesNoRows) {
  const TensorDataset dataset(at::zeros({4, 1, 2, 2}),
                              at::zeros({4}, at::kLong));
  Random random;
  const Batch batch = dataset.get({}, random);
  EXPECT_EQ(batch.data.sizes(), (Indices{0, 1, 2, 2}));
  EXPECT_EQ(batch.target.sizes(), (Indices{0}));
}

TEST(TensorDataset, TakesStridedData) {
  const at::Tensor data = at::arange(6).view({2, 3}).t();
  const TensorDataset dataset(data, at::zeros({3}));
  Random random;
  EXPECT_TRUE(at::equal(dataset.get(Indices{1}, random).data[0],
                        at::tensor({1, 4}, at::kLong)));
  EXPECT_EQ(dataset.classes(), 0);
}

TEST(TensorDataset, RefusesWhatDoesNotFit) {
  const at::Tensor data = at::zeros({3, 2});
  EXPECT_TRUE(contains(
      usage_error([&] { TensorDataset(data, at::zeros({2})); }), "[3, 2]"));
  EXPECT_TRUE(contains(
      usage_error([&] {
        TensorDataset(data, at::tensor({0, 1, 5}, at::kLong), /*classes=*/5);
      }),
      "0 to 5"));
  EXPECT_THROW(TensorDataset(data, at::tensor({0, -1, 1}, at::kLong)),
               UsageError);
  const TensorDataset dataset(data, at::zeros({3}));
  Random random;
  EXPECT_TRUE(contains(usage_error([&] {
                         dataset.get(Indices{1, 3}, random);
                       }),
                       "example 3"));
  EXPECT_THROW(dataset.get(Indices{-1}, random), UsageError);
}

TEST(TensorDataset, ThePartsHaveRowsOfOneShapeAndType) {
  const std::vector<at::Tensor> parts{at::zeros({2, 3}), at::ones({1, 3})};
  Random random;
  EXPECT_TRUE(at::equal(
      TensorDataset(parts, at::zeros({3})).get(Indices{2, 1}, random).data,
      at::tensor({1, 1, 1, 0, 0, 0}, at::kFloat).view({2, 3})));
  for (const at::Tensor& other :
       {at::zeros({1, 2}), at::zeros({1, 3}, at::kLong), at::zeros({}),
        at::Tensor()})
    EXPECT_TRUE(contains(usage_error([&] {
                           TensorDataset({parts[0], other}, at::zeros({3}));
                         }),
                         "rows of the same shape and type"));
  EXPECT_TRUE(contains(usage_error([] {
                         TensorDataset(std::vector<at::Tensor>{}, at::zeros(0));
                       }),
                       "at least one data tensor"));
}

TEST(NpyDataset, ReadsAPair) {
  const TemporaryFolder folder;
  const std::string data = (folder.path() / "data.npy").string();
  const std::string target = (folder.path() / "target.npy").string();
  tensor::save_npy(data, at::arange(6, at::kFloat).view({3, 2}));
  tensor::save_npy(target, at::tensor({0, 2, 1}, at::kLong));
  const auto dataset = read_npy_dataset(data, target);
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->classes(), 3);
  EXPECT_EQ(dataset->data()[2][1].item<float>(), 5);
  tensor::save_npy(target, at::tensor({0, 2}, at::kLong));
  const std::string text = io_error([&] { read_npy_dataset(data, target); });
  EXPECT_TRUE(contains(text, target)) << text;
  EXPECT_TRUE(contains(text, "same number of rows")) << text;
}

Batch all_of(const SyntheticDataset& dataset) {
  Indices indices(static_cast<std::size_t>(dataset.size()));
  for (std::size_t i = 0; i < indices.size(); ++i)
    indices[i] = static_cast<std::int64_t>(i);
  Random random;
  return dataset.get(indices, random);
}

TEST(Synthetic, IsAFunctionOfSeedAndNumber) {
  const Batch a = all_of(SyntheticDataset({.examples = 50, .seed = 3}));
  const Batch b = all_of(SyntheticDataset({.examples = 50, .seed = 3}));
  EXPECT_TRUE(at::equal(a.data, b.data));
  EXPECT_TRUE(at::equal(a.target, b.target));
  const Batch c = all_of(SyntheticDataset({.examples = 50, .seed = 4}));
  EXPECT_FALSE(at::equal(a.data, c.data));
  const Batch later =
      all_of(SyntheticDataset({.examples = 40, .seed = 3, .first = 10}));
  EXPECT_TRUE(at::equal(a.data.narrow(0, 10, 40), later.data));
  EXPECT_TRUE(at::equal(a.target.narrow(0, 10, 40), later.target));
}

// Nearest-mean classification: each test example is closest to the mean of the
// training examples of its class.
TEST(Synthetic, CanBeLearnt) {
  const Batch train = all_of(SyntheticDataset({.examples = 1000}));
  const Batch test = all_of(SyntheticDataset({.examples = 300, .first = 1000}));
  const at::Tensor rows = train.data.to(at::kFloat).flatten(1);
  std::vector<at::Tensor> means;
  for (int label = 0; label < 10; ++label) {
    const at::Tensor of_label = (train.target == label).nonzero().flatten();
    ASSERT_GT(of_label.size(0), 50) << label;
    means.push_back(rows.index_select(0, of_label).mean(0));
  }
  const at::Tensor distances =
      at::cdist(test.data.to(at::kFloat).flatten(1), at::stack(means));
  EXPECT_TRUE(at::equal(distances.argmin(1), test.target));
}

TEST(Synthetic, ClassesThatTheMemoryCannotHoldAreAnError) {
  for (const std::int64_t size : {1000000, 1000000000}) {
    const std::string text = usage_error([&] {
      SyntheticDataset({.classes = 1000, .shape = {size, size, size}});
    });
    EXPECT_TRUE(contains(text, "memory") && contains(text, "1000 synthetic"))
        << text;
  }
}

TEST(Synthetic, HasTheShapeAsked) {
  const SyntheticDataset dataset(
      {.examples = 5, .classes = 3, .shape = {3, 8, 6}});
  EXPECT_EQ(dataset.example_shape(), (Indices{3, 8, 6}));
  EXPECT_EQ(all_of(dataset).data.sizes(), (Indices{5, 3, 8, 6}));
  EXPECT_EQ(dataset.classes(), 3);
  EXPECT_THROW(SyntheticDataset({.classes = 0}), UsageError);
  EXPECT_THROW(SyntheticDataset({.shape = {0}}), UsageError);
  EXPECT_THROW(SyntheticDataset({.noise = 2}), UsageError);
}

// Whole examples and boxes of them have the same type and values, and so do
// batches without examples.
TEST(Synthetic, TokensAreTokensInBoxesToo) {
  const SyntheticDataset dataset(
      {.examples = 3, .shape = {1, 4, 6}, .is_tokens = true});
  const at::Tensor whole = all_of(dataset).data;
  Random random;
  const Indices indices{0, 1, 2};
  const Boxes boxes{{4, 3}, std::vector<Corner>(3, Corner{0, 2, 0})};
  const at::Tensor cut = dataset.get_boxes(indices, boxes, random).data;
  EXPECT_EQ(whole.scalar_type(), at::kLong);
  EXPECT_TRUE(cut.equal(whole.narrow(3, 2, 3)));
  EXPECT_EQ(dataset.get(Indices{}, random).data.scalar_type(), at::kLong);
}

// 0 is no token, and marks what is outside of the image.
TEST(Synthetic, BoxesOutsideOfTheImageHaveNoTokens) {
  const SyntheticDataset dataset(
      {.examples = 3, .shape = {1, 4, 6}, .is_tokens = true});
  const at::Tensor whole = all_of(dataset).data;
  Random random;
  const Boxes boxes{{4, 3}, std::vector<Corner>(3, Corner{0, 5, 0})};
  const at::Tensor cut =
      dataset.get_boxes(Indices{0, 1, 2}, boxes, random).data;
  EXPECT_TRUE(cut.narrow(3, 0, 1).equal(whole.narrow(3, 5, 1)));
  EXPECT_EQ(cut.narrow(3, 1, 2).abs().max().item<std::int64_t>(), 0);
}

}  // namespace
}  // namespace sheaf::data

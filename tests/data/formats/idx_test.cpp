#include <gtest/gtest.h>

#include <filesystem>

#include "sheaf/data/formats/array_files.hpp"
#include "tests/data/made_files.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::data {
namespace {

const std::string kFashion = "/usr/share/datasets/fashion-mnist/";

class Idx : public FileTest {
 protected:
  std::string error_of(const Bytes& bytes) const {
    const std::string path = write("bad", bytes);
    return io_error([&] { read_idx(path); });
  }
};

TEST_F(Idx, ReadsEveryType) {
  const Bytes elements = {0x3f, 0x80, 0, 0, 0xbf, 0x80, 0, 0};
  const auto read = [&](std::uint8_t type, std::uint32_t count) {
    return read_idx(write("array", idx_bytes(type, {count}, elements)));
  };
  EXPECT_TRUE(at::equal(
      read(0x08, 8), at::tensor({63, 128, 0, 0, 191, 128, 0, 0}, at::kByte)));
  EXPECT_TRUE(at::equal(
      read(0x09, 8), at::tensor({63, -128, 0, 0, -65, -128, 0, 0}, at::kChar)));
  EXPECT_TRUE(
      at::equal(read(0x0b, 4), at::tensor({0x3f80, 0, -16512, 0}, at::kShort)));
  EXPECT_TRUE(at::equal(read(0x0c, 2),
                        at::tensor({0x3f800000, -1082130432}, at::kInt)));
  EXPECT_TRUE(at::equal(read(0x0d, 2), at::tensor({1.0f, -1.0f})));
  const Bytes two = {0x40, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_TRUE(at::equal(read_idx(write("double", idx_bytes(0x0e, {1}, two))),
                        at::tensor({2.0}, at::kDouble)));
}

TEST_F(Idx, ReadsImagesWithLabels) {
  const Bytes pixels = counting_bytes(3 * 4 * 5);
  const auto dataset =
      read_idx_dataset(write("images", gzip(idx_bytes(8, {3, 4, 5}, pixels))),
                       write("labels", idx_bytes(8, {3}, {1, 0, 2})));
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->classes(), 3);
  EXPECT_EQ(dataset->example_shape(), (std::vector<std::int64_t>{1, 4, 5}));
  Random random;
  const std::vector<std::int64_t> wanted = {2, 0};
  const Batch batch = dataset->get(wanted, random);
  EXPECT_EQ(batch.data.scalar_type(), at::kByte);
  EXPECT_EQ(batch.data[0][0][0][0].item<int>(), 40);
  EXPECT_EQ(batch.data[1][0][3][4].item<int>(), 19);
  EXPECT_TRUE(at::equal(batch.target, at::tensor({2, 1}, at::kLong)));
}

TEST_F(Idx, OffsetsOfPackedFilesAreInTheirContent) {
  const std::string text = error_of(gzip(idx_bytes(8, {5}, {1, 2})));
  EXPECT_TRUE(contains(text, "at byte 10 of its decompressed content")) << text;
}

TEST_F(Idx, CountsMustAgree) {
  const std::string images =
      write("images", idx_bytes(8, {3, 1, 1}, {1, 2, 3}));
  const std::string labels = write("labels", idx_bytes(8, {2}, {0, 1}));
  const std::string text = io_error([&] { read_idx_dataset(images, labels); });
  EXPECT_TRUE(contains(text, labels)) << text;
  EXPECT_TRUE(contains(text, "2 labels for the 3 images")) << text;
  EXPECT_EQ(offset_in(text), 4);
}

TEST_F(Idx, LabelsMustBeClasses) {
  const std::string images = write("images", idx_bytes(8, {2, 1, 1}, {1, 2}));
  const std::string labels = write("labels", idx_bytes(8, {2}, {0, 10}));
  const std::string text =
      io_error([&] { read_idx_dataset(images, labels, {.classes = 10}); });
  EXPECT_TRUE(contains(text, "label 10")) << text;
  EXPECT_EQ(offset_in(text), 9);
  EXPECT_GE(offset_in(io_error([&] { read_idx_dataset(images, images); })), 0);
}

TEST_F(Idx, ReadsFashionMnist) {
  if (!std::filesystem::exists(kFashion))
    SHEAF_SKIP_MISSING("Debian's dataset-fashion-mnist is not installed");
  const auto dataset = read_idx_dataset(kFashion + "t10k-images-idx3-ubyte.gz",
                                        kFashion + "t10k-labels-idx1-ubyte.gz");
  EXPECT_EQ(dataset->size(), 10000);
  EXPECT_EQ(dataset->classes(), 10);
  EXPECT_TRUE(at::equal(at::bincount(dataset->target()),
                        at::full({10}, 1000, at::kLong)));
  // 73.15 of 255 is the mean of the test images.
  EXPECT_NEAR(dataset->data().to(at::kDouble).mean().item<double>(), 73.15,
              0.005);
}

TEST_F(Idx, FashionMnistCutAtManyPlacesIsAnError) {
  if (!std::filesystem::exists(kFashion))
    SHEAF_SKIP_MISSING("Debian's dataset-fashion-mnist is not installed");
  std::ifstream file(kFashion + "t10k-labels-idx1-ubyte.gz", std::ios::binary);
  const Bytes whole{std::istreambuf_iterator<char>(file), {}};
  ASSERT_GT(whole.size(), 4000u);
  for (std::size_t size = 3; size < whole.size(); size += 97) {
    const std::string text =
        error_of(Bytes(whole.begin(), whole.begin() + static_cast<long>(size)));
    EXPECT_EQ(offset_in(text), static_cast<long>(size)) << text;
  }
}

}  // namespace
}  // namespace sheaf::data

#include "sheaf/data/image.hpp"

#include <gtest/gtest.h>

#include <filesystem>

#include "sheaf/data/image_folder.hpp"
#include "tests/data/made_files.hpp"

namespace sheaf::data {
namespace {

void add_chunk(Bytes& png, const std::string& name, const Bytes& content) {
  add_word(png, static_cast<std::uint32_t>(content.size()));
  Bytes summed(name.begin(), name.end());
  summed.insert(summed.end(), content.begin(), content.end());
  png.insert(png.end(), summed.begin(), summed.end());
  add_word(png, static_cast<std::uint32_t>(
                    crc32(0, summed.data(), static_cast<uInt>(summed.size()))));
}

// 8 bits, rows of `channels` (1 or 3) interleaved, unfiltered.
Bytes png_bytes(std::uint32_t height, std::uint32_t width, int channels,
                const Bytes& pixels) {
  Bytes png = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  Bytes header;
  add_word(header, width);
  add_word(header, height);
  header.insert(header.end(),
                {8, static_cast<std::uint8_t>(channels == 1 ? 0 : 2), 0, 0, 0});
  add_chunk(png, "IHDR", header);
  const std::size_t row_bytes = width * static_cast<std::size_t>(channels);
  Bytes rows;
  for (std::size_t row = 0; row < height; ++row) {
    rows.push_back(0);
    const auto begin = pixels.begin() + static_cast<long>(row * row_bytes);
    rows.insert(rows.end(), begin, begin + static_cast<long>(row_bytes));
  }
  uLongf size = compressBound(rows.size());
  Bytes packed(size);
  compress(packed.data(), &size, rows.data(), rows.size());
  packed.resize(size);
  add_chunk(png, "IDAT", packed);
  add_chunk(png, "IEND", {});
  return png;
}

// 16 wide, 8 high: the left half (200, 40, 40), the right half (30, 30, 180).
Bytes jpeg_bytes() {
  const std::string hex =
      "ffd8ffdb004300100b0c0e0c0a100e0d0e1211101318281a181616183123251d283a333d"
      "3c3933383740485c4e404457453738506d51575f626768673e4d71797064785c656763ff"
      "db0043011112121815182f1a1a2f63423842636363636363636363636363636363636363"
      "6363636363636363636363636363636363636363636363636363636363636363ffc00011"
      "080008001003011100021101031101ffc400140001000000000000000000000000000000"
      "05ffc40014100100000000000000000000000000000000ffc40015010101000000000000"
      "00000000000000000604ffc40014110100000000000000000000000000000000ffda000c"
      "03010002110311003f002d1130a30137ffd9";
  Bytes bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(
        static_cast<std::uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

class Image : public FileTest {
 protected:
  std::string error_of(const Bytes& bytes) const {
    const std::string path = write("bad", bytes);
    return io_error([&] { read_image(path); });
  }
};

TEST_F(Image, ReadsPng) {
  if (!has_png()) GTEST_SKIP() << "built without libpng";
  const Bytes pixels = counting_bytes(2 * 3 * 3);
  const std::string colour = write("a.png", png_bytes(2, 3, 3, pixels));
  const at::Tensor expected =
      at::arange(18, at::kByte).view({2, 3, 3}).permute({2, 0, 1});
  EXPECT_TRUE(at::equal(read_image(colour), expected));
  const std::string grey = write("b.png", png_bytes(2, 9, 1, pixels));
  EXPECT_TRUE(at::equal(read_image(grey, 1),
                        at::arange(18, at::kByte).view({1, 2, 9})));
  EXPECT_TRUE(at::equal(read_image(grey, 3)[2],
                        at::arange(18, at::kByte).view({2, 9})));
}

TEST_F(Image, APngCutOrChangedAnywhereIsAnError) {
  if (!has_png()) GTEST_SKIP() << "built without libpng";
  const Bytes whole = png_bytes(4, 4, 3, counting_bytes(48));
  for (std::size_t i = 8; i < whole.size(); ++i) {
    const std::string cut =
        error_of(Bytes(whole.begin(), whole.begin() + static_cast<long>(i)));
    EXPECT_GE(offset_in(cut), 8) << i << ": " << cut;
    EXPECT_LE(offset_in(cut), static_cast<long>(i)) << cut;
    Bytes changed = whole;
    changed[i] ^= 1;
    EXPECT_GE(offset_in(error_of(changed)), 8) << i;
  }
}

TEST_F(Image, ReadsJpeg) {
  if (!has_jpeg()) GTEST_SKIP() << "built without libjpeg";
  const at::Tensor image = read_image(write("a.jpg", jpeg_bytes()));
  ASSERT_EQ(image.sizes(), (std::vector<std::int64_t>{3, 8, 16}));
  const int left[] = {200, 40, 40}, right[] = {30, 30, 180};
  for (int channel = 0; channel < 3; ++channel) {
    // Quality 50 rounds the mean of a block's brightness to steps of 2 and of
    // its colours to steps of 2.1; a colour counts up to 1.8 times.
    EXPECT_NEAR(image[channel][4][3].item<int>(), left[channel], 5);
    EXPECT_NEAR(image[channel][4][12].item<int>(), right[channel], 5);
  }
  EXPECT_EQ(read_image(write("a.jpg", jpeg_bytes()), 1).size(0), 1);
}

TEST_F(Image, AJpegCutAnywhereIsAnError) {
  if (!has_jpeg()) GTEST_SKIP() << "built without libjpeg";
  const Bytes whole = jpeg_bytes();
  // Nothing is lost with the two bytes that only mark the end.
  for (std::size_t size = 3; size < whole.size() - 2; ++size) {
    const std::string text =
        error_of(Bytes(whole.begin(), whole.begin() + static_cast<long>(size)));
    EXPECT_GE(offset_in(text), 0) << size;
    EXPECT_LE(offset_in(text), static_cast<long>(size)) << text;
  }
}

TEST_F(Image, OtherFilesAreErrors) {
  EXPECT_EQ(offset_in(error_of({1, 2, 3})), 0);
  EXPECT_EQ(offset_in(error_of({})), 0);
  EXPECT_THROW(read_image("any", 2), UsageError);
}

class Folder : public Image {
 protected:
  void SetUp() override {
    if (!has_png()) GTEST_SKIP() << "built without libpng";
    write("set/dog/2.png", png_bytes(2, 2, 1, {1, 1, 1, 1}));
    write("set/dog/1.PNG", png_bytes(2, 2, 1, {2, 2, 2, 2}));
    write("set/cat/deep/x.png", png_bytes(2, 2, 1, {3, 3, 3, 3}));
    write("set/cat/notes.txt", {1});
    write("set/readme", {1});
  }
  const std::string set_ = (folder_.path() / "set").string();
};

TEST_F(Folder, ClassesAreFolders) {
  const ImageFolder images(set_, {.channels = 1});
  EXPECT_EQ(images.class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(images.size(), 3);
  EXPECT_EQ(images.example_shape(), (std::vector<std::int64_t>{1, 2, 2}));
  Random random;
  const std::vector<std::int64_t> wanted = {2, 0, 1};
  const Batch batch = images.get(wanted, random);
  EXPECT_TRUE(at::equal(batch.target, at::tensor({1, 0, 1}, at::kLong)));
  EXPECT_TRUE(at::equal(batch.data.select(3, 0).select(2, 0).flatten(),
                        at::tensor({1, 3, 2}, at::kByte)));
  EXPECT_EQ(images.get({}, random).data.sizes(),
            (std::vector<std::int64_t>{0, 1, 2, 2}));
}

TEST_F(Folder, ImagesOfOtherSizesNeedATransform) {
  write("set/dog/3.png", png_bytes(4, 4, 1, Bytes(16, 9)));
  const std::vector<std::int64_t> all = {0, 1, 2, 3};
  Random random;
  const ImageFolder plain(set_);
  const std::string text = usage_error([&] { plain.get(all, random); });
  EXPECT_TRUE(contains(text, "3.png") && contains(text, "x.png")) << text;
  const ImageFolder resized(set_, {.each = resize(3, 3)});
  EXPECT_EQ(resized.get(all, random).data.sizes(),
            (std::vector<std::int64_t>{4, 3, 3, 3}));
}

TEST_F(Folder, WhatIsNoImageFolderIsAnError) {
  EXPECT_NE(io_error([&] { ImageFolder(set_ + "/nothing"); }), "");
  EXPECT_NE(io_error([&] { ImageFolder(set_ + "/dog"); }), "");
  std::filesystem::create_directories(set_ + "/empty");
  const std::string text = io_error([&] { ImageFolder{set_}; });
  EXPECT_TRUE(contains(text, "empty")) << text;
}

}  // namespace
}  // namespace sheaf::data

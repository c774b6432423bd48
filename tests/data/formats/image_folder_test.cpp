#include "sheaf/data/formats/image_folder.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "sheaf/base/log.hpp"
#include "tests/data/made_files.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::data {
namespace {

class Image : public FileTest {
 protected:
  std::string error_of(const Bytes& bytes) const {
    const std::string path = write("bad", bytes);
    return io_error([&] { read_image(path); });
  }
  // The first row, with 1 or 3 interleaved channels.
  std::vector<int> row_of(const Bytes& bytes, int channels) const {
    const at::Tensor image = read_image(write("image", bytes), channels);
    std::vector<int> row;
    for (std::int64_t x = 0; x < image.size(2); ++x)
      for (int channel = 0; channel < channels; ++channel)
        row.push_back(image[channel][0][x].item<int>());
    return row;
  }
};

int luma(int red, int green, int blue) {
  return (19595 * red + 38470 * green + 7471 * blue + 32768) >> 16;
}

// Chunks that must not change pixels.
const std::vector<std::vector<std::pair<std::string, Bytes>>> kGammaChunks = {
    {},
    {{"gAMA", {0, 1, 0x86, 0xa0}}},  // 1.0
    {{"gAMA", {0, 0, 0xb1, 0x8f}}},  // 1 / 2.2
    {{"sRGB", {0}}}};

TEST_F(Image, ReadsPng) {
  if (!formats::has_png()) SHEAF_SKIP_MISSING("built without libpng");
  const Bytes pixels = counting_bytes(2 * 3 * 3);
  const std::string color = write("a.png", png_bytes(2, 3, 3, pixels));
  const at::Tensor expected =
      at::arange(18, at::kByte).view({2, 3, 3}).permute({2, 0, 1});
  EXPECT_TRUE(at::equal(read_image(color), expected));
  const std::string grey = write("b.png", png_bytes(2, 9, 1, pixels));
  EXPECT_TRUE(at::equal(read_image(grey, 1),
                        at::arange(18, at::kByte).view({1, 2, 9})));
  EXPECT_TRUE(at::equal(read_image(grey, 3)[2],
                        at::arange(18, at::kByte).view({2, 9})));
}

TEST_F(Image, OfSixteenBitsTheHighByteCounts) {
  if (!formats::has_png()) SHEAF_SKIP_MISSING("built without libpng");
  const Bytes samples = {0x40, 0, 0x40, 0xff, 0xff, 0xff, 0, 0xff, 1, 0, 2, 3};
  const std::vector<int> high = {0x40, 0x40, 0xff, 0, 1, 2};
  for (const auto& chunks : kGammaChunks) {
    const PngMaking gray{.bits = 16, .color = kPngGray, .chunks = chunks};
    EXPECT_EQ(row_of(png_row(6, gray, samples), 1), high);
    const PngMaking color{.bits = 16, .color = kPngRgb, .chunks = chunks};
    EXPECT_EQ(row_of(png_row(2, color, samples), 3), high);
    EXPECT_EQ(row_of(png_row(2, color, samples), 1),
              (std::vector<int>{luma(0x40, 0x40, 0xff), luma(0, 1, 2)}));
  }
}

TEST_F(Image, GrayIsTheLumaOfStoredValues) {
  if (!formats::has_png()) SHEAF_SKIP_MISSING("built without libpng");
  Bytes samples;
  std::vector<int> expected;
  for (const int red : {0, 1, 127, 200, 255})
    for (const int green : {0, 40, 128, 254, 255})
      for (const int blue : {0, 40, 129, 255}) {
        for (const int one : {red, green, blue})
          samples.push_back(static_cast<std::uint8_t>(one));
        expected.push_back(luma(red, green, blue));
      }
  // 88 is Pillow's value, and white stays white.
  EXPECT_EQ(luma(200, 40, 40), 88);
  EXPECT_EQ(luma(255, 255, 255), 255);
  for (const auto& chunks : kGammaChunks)
    EXPECT_EQ(row_of(png_row(100, {.chunks = chunks}, samples), 1), expected);
}

TEST_F(Image, GrayOfAJpegIsTheLumaOfItsColors) {
  if (!formats::has_jpeg()) SHEAF_SKIP_MISSING("built without libjpeg");
  const std::vector<int> color = row_of(jpeg_bytes(), 3);
  const std::vector<int> gray = row_of(jpeg_bytes(), 1);
  ASSERT_EQ(gray.size(), 16u);
  for (std::size_t i = 0; i < gray.size(); ++i)
    EXPECT_EQ(gray[i], luma(color[3 * i], color[3 * i + 1], color[3 * i + 2]));
}

TEST_F(Image, ColorsThatAreTransparentStay) {
  if (!formats::has_png()) SHEAF_SKIP_MISSING("built without libpng");
  const std::vector<int> pixels = {10, 20, 30, 200, 100, 0};
  EXPECT_EQ(
      row_of(png_row(2, {.color = kPngRgba}, {10, 20, 30, 0, 200, 100, 0, 128}),
             3),
      pixels);
  EXPECT_EQ(
      row_of(png_row(3, {.color = kPngGrayAlpha}, {7, 0, 9, 1, 11, 255}), 1),
      (std::vector<int>{7, 9, 11}));
  const Bytes palette = {200, 100, 0, 10, 20, 30};
  const PngMaking indexed{.color = kPngPalette,
                          .chunks = {{"PLTE", palette}, {"tRNS", {255, 0}}}};
  EXPECT_EQ(row_of(png_row(2, indexed, {1, 0}), 3), pixels);
  EXPECT_EQ(row_of(png_row(2, indexed, {1, 0}), 1),
            (std::vector<int>{luma(10, 20, 30), luma(200, 100, 0)}));
  const PngMaking keyed{.chunks = {{"tRNS", {0, 10, 0, 20, 0, 30}}}};
  EXPECT_EQ(row_of(png_row(2, keyed, {10, 20, 30, 200, 100, 0}), 3), pixels);
}

TEST_F(Image, SamplesOfFewBitsAreSpread) {
  if (!formats::has_png()) SHEAF_SKIP_MISSING("built without libpng");
  const auto gray = [&](std::uint8_t bits, std::uint32_t width) {
    return row_of(
        png_row(width, {.bits = bits, .color = kPngGray}, {0b00011011}), 1);
  };
  EXPECT_EQ(gray(1, 8), (std::vector<int>{0, 0, 0, 255, 255, 0, 255, 255}));
  EXPECT_EQ(gray(2, 4), (std::vector<int>{0, 85, 170, 255}));
  EXPECT_EQ(gray(4, 2), (std::vector<int>{17, 11 * 17}));
  const PngMaking indexed{
      .bits = 2, .color = kPngPalette, .chunks = {{"PLTE", Bytes(12, 5)}}};
  EXPECT_EQ(row_of(png_row(4, indexed, {0b00011011}), 1),
            std::vector<int>(4, 5));
}

TEST_F(Image, ReadsJpeg) {
  if (!formats::has_jpeg()) SHEAF_SKIP_MISSING("built without libjpeg");
  const at::Tensor image = read_image(write("a.jpg", jpeg_bytes()));
  ASSERT_EQ(image.sizes(), (std::vector<std::int64_t>{3, 8, 16}));
  const int left[] = {200, 40, 40}, right[] = {30, 30, 180};
  for (int channel = 0; channel < 3; ++channel) {
    // Quality 50 rounds the mean luma of a block to multiples of 2 and its mean
    // chroma to multiples of 2.1; chroma is weighted by up to 1.8.
    EXPECT_NEAR(image[channel][4][3].item<int>(), left[channel], 5);
    EXPECT_NEAR(image[channel][4][12].item<int>(), right[channel], 5);
  }
  EXPECT_EQ(read_image(write("a.jpg", jpeg_bytes()), 1).size(0), 1);
}

TEST_F(Image, OtherFilesAreErrors) {
  EXPECT_EQ(offset_in(error_of({1, 2, 3})), 0);
  EXPECT_EQ(offset_in(error_of({})), 0);
  EXPECT_THROW(read_image("any", 2), UsageError);
}

// Files of an unsupported format are not ignored; reading them is an error.
TEST_F(Image, AllFormatsCountAsImages) {
  EXPECT_EQ(image_endings(),
            (std::vector<std::string>{".png", ".jpg", ".jpeg"}));
}

class Folder : public Image {
 protected:
  void SetUp() override {
    if (!formats::has_png()) SHEAF_SKIP_MISSING("built without libpng");
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

TEST_F(Folder, HiddenFilesAndFoldersAreIgnored) {
  write("set/dog/._1.png", {1});
  write("set/dog/.ipynb_checkpoints/1-checkpoint.png",
        png_bytes(9, 9, 1, Bytes(81)));
  write("set/.ipynb_checkpoints/notes.png", {1});
  write("set/.DS_Store", {1});
  const ImageFolder images(set_, {.channels = 1});
  EXPECT_EQ(images.class_names(), (std::vector<std::string>{"cat", "dog"}));
  EXPECT_EQ(images.size(), 3);
}

TEST_F(Folder, LinksAreFollowed) {
  namespace fs = std::filesystem;
  write("elsewhere/deep/y.png", png_bytes(2, 2, 1, {4, 4, 4, 4}));
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directory_symlink(elsewhere, set_ + "/cat/more");
  fs::create_symlink(elsewhere / "deep" / "y.png", set_ + "/dog/3.png");
  fs::create_directory_symlink(elsewhere / "deep", set_ + "/fox");
  const ImageFolder images(set_, {.channels = 1});
  EXPECT_EQ(images.class_names(),
            (std::vector<std::string>{"cat", "dog", "fox"}));
  ASSERT_EQ(images.size(), 6);
  EXPECT_TRUE(images.path_of(1).ends_with("cat/more/deep/y.png"));
  EXPECT_TRUE(images.path_of(5).ends_with("fox/y.png"));
}

TEST_F(Folder, LinksThatLeadBackAreSkipped) {
  set_log_level(LogLevel::kOff);
  namespace fs = std::filesystem;
  fs::create_directory_symlink(set_ + "/cat", set_ + "/cat/deep/up");
  fs::create_directory_symlink(".", set_ + "/dog/self");
  write("elsewhere/z.png", png_bytes(2, 2, 1, {5, 5, 5, 5}));
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directory_symlink(elsewhere, elsewhere / "again");
  fs::create_directory_symlink(elsewhere, set_ + "/cat/one");
  fs::create_directory_symlink(elsewhere, set_ + "/cat/two");
  // Images in a folder with two links to it count twice.
  EXPECT_EQ(ImageFolder(set_, {.channels = 1}).size(), 5);
  set_log_level(LogLevel::kWarn);
}

// Links to folders of other classes and to parents of the image folder.
TEST_F(Folder, LinksOutOfTheClassThatLeadBackAreSkipped) {
  set_log_level(LogLevel::kOff);
  namespace fs = std::filesystem;
  fs::create_directory_symlink("..", set_ + "/dog/all");
  fs::create_directory_symlink("../..", set_ + "/dog/above");
  fs::create_directory_symlink("/", set_ + "/cat/everything");
  fs::create_directory_symlink(".", set_ + "/fox");
  write("elsewhere/deep/z.png", png_bytes(2, 2, 1, {5, 5, 5, 5}));
  const fs::path elsewhere = folder_.path() / "elsewhere";
  fs::create_directory_symlink("..", elsewhere / "deep" / "up");
  fs::create_directory_symlink(elsewhere / "deep", set_ + "/wolf");
  const ImageFolder images(set_, {.channels = 1});
  EXPECT_EQ(images.class_names(),
            (std::vector<std::string>{"cat", "dog", "wolf"}));
  ASSERT_EQ(images.size(), 4);
  EXPECT_TRUE(images.path_of(3).ends_with("wolf/z.png"));
  set_log_level(LogLevel::kWarn);
}

TEST_F(Folder, ALinkToNothingIsAnError) {
  std::filesystem::create_symlink("gone.png", set_ + "/dog/3.png");
  const std::string text = io_error([&] { ImageFolder{set_}; });
  EXPECT_TRUE(contains(text, "dog/3.png") && contains(text, "link")) << text;
}

// Opening a pipe would wait for a writer.
TEST_F(Folder, APipeOrDeviceNamedAsAnImageIsAnError) {
  const std::string path = set_ + "/dog/3.png";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const auto error = [&] { return io_error([&] { ImageFolder{set_}; }); };
  EXPECT_TRUE(contains(error(), "dog/3.png is not a file")) << error();
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  EXPECT_TRUE(contains(error(), "dog/3.png is not a file")) << error();
  std::filesystem::remove(path);
  // Others are not opened.
  ASSERT_EQ(::mkfifo((set_ + "/dog/pipe").c_str(), 0600), 0);
  EXPECT_EQ(ImageFolder(set_, {.channels = 1}).size(), 3);
}

TEST_F(Folder, AnImageThatBecomesAPipeIsAnErrorOfItsBatch) {
  const ImageFolder images(set_, {.channels = 1});
  const std::string path = images.path_of(1);
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  Random random;
  const std::int64_t index = 1;
  const std::string text = io_error([&] { images.get({&index, 1}, random); });
  EXPECT_TRUE(contains(text, path)) << text;
}

// 2 links in each of 30 folders make a billion paths to the last one.
TEST_F(Folder, LinksThatMultiplyPathsAreAnError) {
  namespace fs = std::filesystem;
  const fs::path maze = folder_.path() / "maze";
  for (int level = 0; level < 30; ++level) {
    const fs::path folder = maze / std::to_string(level);
    fs::create_directories(folder);
    for (const char* name : {"a", "b"})
      fs::create_directory_symlink(maze / std::to_string(level + 1),
                                   folder / name);
  }
  fs::create_directories(maze / "30");
  fs::create_directory_symlink(maze / "0", set_ + "/dog/maze");
  const std::string text = io_error([&] { ImageFolder{set_}; });
  EXPECT_TRUE(contains(text, "more than 100 paths")) << text;
}

TEST_F(Folder, NamesMayBeAnyBytes) {
  const std::string name = "d\xff\n\xc3";
  write("set/" + name + "/\xfe.png", png_bytes(2, 2, 1, Bytes(4, 7)));
  const ImageFolder images(set_, {.channels = 1});
  EXPECT_EQ(images.class_names(),
            (std::vector<std::string>{"cat", "dog", "d\xff\n\xc3"}));
  Random random;
  const std::int64_t index = 3;
  EXPECT_EQ(images.get({&index, 1}, random).data[0][0][0][0].item<int>(), 7);
}

TEST_F(Folder, PixelsAreLimited) {
  EXPECT_EQ(ImageFolder(set_, {.max_pixels = 4}).size(), 3);
  const std::string text =
      io_error([&] { ImageFolder(set_, {.max_pixels = 3}); });
  EXPECT_TRUE(contains(text, "2 rows of 2 pixels; at most 3")) << text;
}

TEST_F(Folder, ClassesMayBeNumberedByOthers) {
  const std::vector<std::string> names = {"ant", "cat", "bee", "dog"};
  const ImageFolder images(set_, {.channels = 1, .class_names = names});
  EXPECT_EQ(images.class_names(), names);
  EXPECT_EQ(images.classes(), 4);
  Random random;
  const std::vector<std::int64_t> all = {0, 1, 2};
  EXPECT_TRUE(at::equal(images.get(all, random).target,
                        at::tensor({1, 3, 3}, at::kLong)));
  const std::string text = usage_error([&] {
    ImageFolder(set_, {.class_names = {"cat", "Dog"}});
  });
  EXPECT_TRUE(contains(text, "'dog'") && contains(text, "cat, Dog")) << text;
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

#include <gtest/gtest.h>
#include <malloc.h>

#include "sheaf/formats/images/image.hpp"
#include "tests/formats/images/made_images.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::formats::made {
namespace {

class Png : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_png()) SHEAF_SKIP_MISSING("built without libpng");
  }
  static Pixels decoded(const Bytes& bytes, const ImageLimits& limits = {}) {
    return decode_image(view_bytes("image.png", bytes), limits);
  }
  static Bytes samples_of(const Bytes& bytes) {
    const Pixels pixels = decoded(bytes);
    const std::uint8_t* first = pixels.samples.get();
    return {first, first + pixels.height * pixels.width * pixels.channels};
  }
  static std::string error_of(const Bytes& bytes,
                              const ImageLimits& limits = {}) {
    return io_error([&] { decoded(bytes, limits); });
  }
};

TEST_F(Png, HasRowsOfPixels) {
  const Bytes samples = counting_bytes(2 * 3 * 3);
  const Pixels color = decoded(png_bytes(2, 3, 3, samples));
  EXPECT_EQ(color.height, 2);
  EXPECT_EQ(color.width, 3);
  EXPECT_EQ(color.channels, 3);
  EXPECT_EQ(samples_of(png_bytes(2, 3, 3, samples)), samples);
  EXPECT_EQ(decoded(png_bytes(2, 9, 1, samples)).channels, 1);
  EXPECT_EQ(samples_of(png_bytes(2, 9, 1, samples)), samples);
}

// Chunks that must not change pixels: gamma 1.0 and 1 / 2.2, and sRGB.
TEST_F(Png, OfSixteenBitsTheHighByteCounts) {
  const Bytes samples = {0x40, 0, 0x40, 0xff, 0xff, 0xff, 0, 0xff, 1, 0, 2, 3};
  const Bytes high = {0x40, 0x40, 0xff, 0, 1, 2};
  const std::vector<std::vector<std::pair<std::string, Bytes>>> chunks = {
      {},
      {{"gAMA", {0, 1, 0x86, 0xa0}}},
      {{"gAMA", {0, 0, 0xb1, 0x8f}}},
      {{"sRGB", {0}}}};
  for (const auto& chunk : chunks) {
    const PngMaking gray{.bits = 16, .color = kPngGray, .chunks = chunk};
    EXPECT_EQ(samples_of(png_row(6, gray, samples)), high);
    const PngMaking color{.bits = 16, .color = kPngRgb, .chunks = chunk};
    EXPECT_EQ(samples_of(png_row(2, color, samples)), high);
  }
}

TEST_F(Png, ColorsThatAreTransparentStay) {
  const Bytes pixels = {10, 20, 30, 200, 100, 0};
  EXPECT_EQ(samples_of(png_row(2, {.color = kPngRgba},
                               {10, 20, 30, 0, 200, 100, 0, 128})),
            pixels);
  EXPECT_EQ(
      samples_of(png_row(3, {.color = kPngGrayAlpha}, {7, 0, 9, 1, 11, 255})),
      (Bytes{7, 9, 11}));
  const Bytes palette = {200, 100, 0, 10, 20, 30};
  const PngMaking indexed{.color = kPngPalette,
                          .chunks = {{"PLTE", palette}, {"tRNS", {255, 0}}}};
  EXPECT_EQ(samples_of(png_row(2, indexed, {1, 0})), pixels);
  const PngMaking keyed{.chunks = {{"tRNS", {0, 10, 0, 20, 0, 30}}}};
  EXPECT_EQ(samples_of(png_row(2, keyed, {10, 20, 30, 200, 100, 0})), pixels);
}

TEST_F(Png, SamplesOfFewBitsAreSpread) {
  const auto gray = [&](std::uint8_t bits, std::uint32_t width) {
    return samples_of(
        png_row(width, {.bits = bits, .color = kPngGray}, {0b00011011}));
  };
  EXPECT_EQ(gray(1, 8), (Bytes{0, 0, 0, 255, 255, 0, 255, 255}));
  EXPECT_EQ(gray(2, 4), (Bytes{0, 85, 170, 255}));
  EXPECT_EQ(gray(4, 2), (Bytes{17, 11 * 17}));
}

// Of the seven passes, a 2x2 image has three: the upper left pixel, the upper
// right pixel and the lower row.
TEST_F(Png, MayBeInterlaced) {
  const Bytes png = png_of(2, 2, {.color = kPngGray, .is_interlaced = true},
                           {0, 1, 0, 2, 0, 3, 4});
  EXPECT_EQ(samples_of(png), (Bytes{1, 2, 3, 4}));
}

TEST_F(Png, CutOrChangedAnywhereItIsAnError) {
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

// The checksums of the chunks are correct, but samples are missing.
TEST_F(Png, WithTooFewSamplesItIsAnError) {
  for (std::size_t count = 0; count < 2 * 7; ++count)
    EXPECT_NE(error_of(png_of(2, 2, {}, Bytes(count))), "") << count;
  EXPECT_EQ(error_of(png_of(2, 2, {}, Bytes(2 * 7))), "");
  EXPECT_NE(error_of(png_of(2, 2, {.color = kPngPalette}, Bytes(6))), "");
  EXPECT_NE(error_of(png_of(0, 2, {}, Bytes(6))), "");
}

TEST_F(Png, AHeaderThatPromisesTooMuchIsAnError) {
  const std::string text =
      error_of(png_of(900000, 900000, {}, Bytes(900000 * 3 + 1)));
  EXPECT_TRUE(contains(text, "900000 rows of 2700000 bytes")) << text;
}

// 4.3 billion pixels of one bit. A chunk that has no meaning makes the file
// large enough to hold them.
TEST_F(Png, ABombIsAnError) {
  const PngMaking making{
      .bits = 1, .color = kPngGray, .chunks = {{"juNk", Bytes(600'000)}}};
  const std::string text = error_of(png_of(65500, 65500, making, Bytes(100)));
  EXPECT_TRUE(contains(text,
                       "image.png: the image has 65500 rows of 65500 "
                       "pixels; at most 268435456"))
      << text;
}

TEST_F(Png, TheLimitCountsPixels) {
  const Bytes png = png_bytes(3, 4, 1, Bytes(12));
  EXPECT_EQ(error_of(png, {.max_pixels = 12}), "");
  EXPECT_NE(error_of(png, {.max_pixels = 11}), "");
}

// 32 MB of profile and text from 32 KB, in chunks that no pixel needs.
TEST_F(Png, OtherChunksAreNotDecompressed) {
  const Bytes content(16'000'000);
  uLongf size = compressBound(content.size());
  Bytes packed(size);
  compress(packed.data(), &size, content.data(), content.size());
  packed.resize(size);
  Bytes profile = {'a', 0, 0}, text = {'a', 0, 0};
  profile.insert(profile.end(), packed.begin(), packed.end());
  text.insert(text.end(), packed.begin(), packed.end());
  const PngMaking making{.color = kPngGray,
                         .chunks = {{"iCCP", profile}, {"zTXt", text}}};
  EXPECT_EQ(samples_of(png_row(2, making, {1, 2})), (Bytes{1, 2}));
}

// What libpng warns of is not written to standard error.
TEST_F(Png, WarningsAreNotPrinted) {
  std::vector<std::pair<std::string, Bytes>> chunks(
      1000, {"tRNS", Bytes(999)});  // of a wrong length
  testing::internal::CaptureStderr();
  decoded(png_row(2, {.color = kPngGray, .chunks = chunks}, {1, 2}));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

// libpng allocates some KB for each image.
TEST_F(Png, NoMemoryRemains) {
  const Bytes good = png_bytes(2, 2, 1, Bytes(4));
  const Bytes bad = png_of(2, 2, {}, Bytes(5));
  const auto used_after = [&](int images) {
    for (int i = 0; i < images; ++i) {
      decoded(good);
      EXPECT_NE(error_of(bad), "");
    }
    return ::mallinfo2().uordblks;
  };
  const std::size_t before = used_after(10);
  EXPECT_LT(used_after(100), before + 20'000);
}

TEST(Images, OtherFilesAreErrors) {
  for (const Bytes& bytes : {Bytes{1, 2, 3}, Bytes{}})
    EXPECT_EQ(
        offset_in(io_error([&] { decode_image(view_bytes("image", bytes)); })),
        0);
}

}  // namespace
}  // namespace sheaf::formats::made

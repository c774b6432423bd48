#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "sheaf/formats/images/image.hpp"
#include "tests/formats/images/made_images.hpp"
#include "tests/support/missing.hpp"

namespace sheaf::formats::made {
namespace {

class Jpeg : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_jpeg()) SHEAF_SKIP_MISSING("built without libjpeg");
  }
  static Pixels decoded(const Bytes& bytes, const ImageLimits& limits = {}) {
    return decode_image(view_bytes("image.jpg", bytes), limits);
  }
  static std::string error_of(const Bytes& bytes,
                              const ImageLimits& limits = {}) {
    return io_error([&] { decoded(bytes, limits); });
  }
  static std::vector<int> pixel(const Pixels& pixels, std::int64_t row,
                                std::int64_t column) {
    const std::uint8_t* at =
        pixels.samples.get() + (row * pixels.width + column) * pixels.channels;
    return {at, at + pixels.channels};
  }
  // All of these are 16 wide and 8 high.
  static Bytes with_size(Bytes jpeg, std::uint16_t height,
                         std::uint16_t width) {
    const Bytes size = {8, 0, 8, 0, 16};
    const auto at =
        std::search(jpeg.begin(), jpeg.end(), size.begin(), size.end());
    EXPECT_NE(at, jpeg.end());
    at[1] = static_cast<std::uint8_t>(height >> 8);
    at[2] = static_cast<std::uint8_t>(height);
    at[3] = static_cast<std::uint8_t>(width >> 8);
    at[4] = static_cast<std::uint8_t>(width);
    return jpeg;
  }
};

TEST_F(Jpeg, HasRowsOfPixels) {
  for (const Bytes& jpeg : {jpeg_bytes(), progressive_jpeg()}) {
    const Pixels pixels = decoded(jpeg);
    ASSERT_EQ(pixels.height, 8);
    ASSERT_EQ(pixels.width, 16);
    ASSERT_EQ(pixels.channels, 3);
    const int left[] = {200, 40, 40}, right[] = {30, 30, 180};
    for (std::size_t channel = 0; channel < 3; ++channel) {
      // Quality 50 rounds the mean luma of a block to multiples of 2 and its
      // mean chroma to multiples of 2.1; chroma is weighted by up to 1.8.
      EXPECT_NEAR(pixel(pixels, 4, 3)[channel], left[channel], 5);
      EXPECT_NEAR(pixel(pixels, 4, 12)[channel], right[channel], 5);
    }
  }
}

// Adobe's programs store 255 - ink; others do the same.
TEST_F(Jpeg, MayBeCmyk) {
  const auto rgb = [](std::vector<int> stored) {
    std::vector<int> pixel;
    const int rest = stored[3];
    for (std::size_t i = 0; i < 3; ++i)
      pixel.push_back(rest - static_cast<int>(std::lround((255 - stored[i]) *
                                                          rest / 255.0)));
    return pixel;
  };
  const auto check = [&](const Bytes& jpeg, const std::vector<int>& left,
                         const std::vector<int>& right) {
    const Pixels pixels = decoded(jpeg);
    ASSERT_EQ(pixels.channels, 3);
    EXPECT_EQ(pixel(pixels, 0, 0), rgb(left));
    EXPECT_EQ(pixel(pixels, 7, 15), rgb(right));
  };
  const std::vector<int> left = {200, 100, 50, 220}, right = {255, 0, 128, 90};
  check(cmyk_jpeg(), left, right);
  check(with_adobe_mark(cmyk_jpeg(), 0), left, right);
  check(with_adobe_mark(ycck_jpeg(), 2), {60, 60, 60, 220},
        {255, 255, 255, 90});
}

TEST_F(Jpeg, MayBeGray) {
  EXPECT_EQ(decoded(gray_jpeg()).channels, 1);
  EXPECT_NEAR(pixel(decoded(gray_jpeg()), 0, 0)[0], 90, 2);
  EXPECT_NEAR(pixel(decoded(gray_jpeg()), 7, 15)[0], 200, 2);
}

TEST_F(Jpeg, CutAnywhereItIsAnError) {
  for (const Bytes& whole :
       {jpeg_bytes(), cmyk_jpeg(), progressive_jpeg(), gray_jpeg()}) {
    // The last two bytes only mark the end; without them nothing is lost.
    for (std::size_t size = 3; size < whole.size() - 2; ++size) {
      const std::string text = error_of(
          Bytes(whole.begin(), whole.begin() + static_cast<long>(size)));
      EXPECT_GE(offset_in(text), 0) << size;
      EXPECT_LE(offset_in(text), static_cast<long>(size)) << text;
    }
  }
}

// A changed file may still be an image; the only exception allowed is IoError.
TEST_F(Jpeg, DamagedImagesAreReadOrRefused) {
  for (const Bytes& whole :
       {jpeg_bytes(), with_adobe_mark(cmyk_jpeg(), 0),
        with_adobe_mark(ycck_jpeg(), 2), progressive_jpeg()})
    for (std::size_t i = 3; i < whole.size(); ++i)
      for (const std::uint8_t value : {0x00, 0x01, 0x7f, 0xff}) {
        Bytes changed = whole;
        changed[i] = value;
        try {
          EXPECT_GE(decoded(changed).channels, 1);
        } catch (const IoError& error) {
          EXPECT_TRUE(contains(error.what(), "image.jpg")) << error.what();
        }
      }
}

TEST_F(Jpeg, AHeaderThatPromisesTooMuchIsAnError) {
  for (const Bytes& whole : {jpeg_bytes(), cmyk_jpeg(), progressive_jpeg()}) {
    const std::string large = error_of(with_size(whole, 0xf0f0, 0xf0f0));
    EXPECT_TRUE(contains(large, "61680 rows of 61680 pixels cannot come"))
        << large;
    const std::string medium = error_of(with_size(whole, 1000, 1000));
    EXPECT_TRUE(contains(medium, "1000 rows of 1000 pixels cannot come"))
        << medium;
  }
}

// 4.3 billion pixels. The bytes behind the image make the size plausible.
TEST_F(Jpeg, ABombIsAnError) {
  Bytes jpeg = with_size(jpeg_bytes(), 65500, 65500);
  jpeg.resize(9'000'000);
  const std::string text = error_of(jpeg);
  EXPECT_TRUE(contains(text,
                       "image.jpg: the image has 65500 rows of 65500 "
                       "pixels; at most 268435456"))
      << text;
}

// Codes of arithmetic coding may be far shorter than a bit.
TEST_F(Jpeg, ABombOfArithmeticCodesIsAnError) {
  Bytes jpeg = with_size(gray_jpeg(), 10000, 10000);
  const Bytes frame = {0xff, 0xc0};  // SOF0; SOF9 has arithmetic codes
  const auto at =
      std::search(jpeg.begin(), jpeg.end(), frame.begin(), frame.end());
  ASSERT_NE(at, jpeg.end());
  at[1] = 0xc9;
  const std::string text = error_of(jpeg);
  EXPECT_TRUE(contains(text, "10000 rows of 10000 pixels cannot come")) << text;
}

TEST_F(Jpeg, TheLimitCountsPixels) {
  EXPECT_EQ(error_of(jpeg_bytes(), {.max_pixels = 128}), "");
  EXPECT_NE(error_of(jpeg_bytes(), {.max_pixels = 127}), "");
}

// Each scan takes the time of the whole image.
TEST_F(Jpeg, TooManyScansAreAnError) {
  EXPECT_EQ(error_of(progressive_jpeg(90)), "");
  const std::string text = error_of(progressive_jpeg(200));
  EXPECT_TRUE(contains(text, "more than 100 scans")) << text;
}

// Sanitizers need more address space than a process has here.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// 3 bytes for each of a million pixels, 6 bytes for their coefficients.
TEST_F(Jpeg, WithoutMemoryForItItIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto error_with = [&](std::size_t left) {
    Bytes jpeg = with_size(progressive_jpeg(), 1000, 1000);
    jpeg.resize(3000);
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t limit =
        pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + left;
    const struct rlimit memory { limit, limit };
    ::setrlimit(RLIMIT_AS, &memory);
    std::fputs(error_of(jpeg).c_str(), stderr);
    ::_exit(0);
  };
  EXPECT_EXIT(error_with(5'000'000), testing::ExitedWithCode(0),
              "image.jpg: not enough memory to decode");
  EXPECT_EXIT(error_with(1'000'000), testing::ExitedWithCode(0),
              "image.jpg: the decoded image needs");
}
#endif

// libjpeg allocates some KB for each image, which is far above the allowed
// difference for 200 images.
TEST_F(Jpeg, NoMemoryRemains) {
  const Bytes good = jpeg_bytes();
  const Bytes bad(good.begin(), good.end() - 9);
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

}  // namespace
}  // namespace sheaf::formats::made

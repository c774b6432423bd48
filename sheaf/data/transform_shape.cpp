// Transforms that move pixels: pad, crop, flip, resize.
#include <algorithm>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/data/transform.hpp"
#include "sheaf/data/transform_check.hpp"

namespace sheaf::data {
namespace {

using Indices = std::span<const std::int64_t>;

struct Size {
  std::int64_t height = 0;
  std::int64_t width = 0;
};

Size checked(std::string_view transform, Size size) {
  SHEAF_CHECK(size.height >= 1 && size.width >= 1, transform, " to ",
              size.height, "x", size.width, "; give sizes of at least 1");
  return size;
}

at::Tensor padded(const at::Tensor& images, std::int64_t pixels, double value) {
  if (pixels == 0) return images;
  const Size inner{images.size(2), images.size(3)};
  at::Tensor result =
      at::full({images.size(0), images.size(1), inner.height + 2 * pixels,
                inner.width + 2 * pixels},
               value, images.options());
  result.narrow(2, pixels, inner.height)
      .narrow(3, pixels, inner.width)
      .copy_(images);
  return result;
}

class Pad : public Transform {
 public:
  Pad(std::int64_t pixels, double value) : pixels_(pixels), value_(value) {
    SHEAF_CHECK(pixels >= 0, "pad by ", pixels, " pixels; give 0 or more");
  }
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random&) const override {
    check_images("pad", images, indices);
    return padded(images, pixels_, value_);
  }

 private:
  std::int64_t pixels_;
  double value_;
};

void check_window(const at::Tensor& images, Size size) {
  SHEAF_CHECK(images.size(2) >= size.height && images.size(3) >= size.width,
              "a crop of ", size.height, "x", size.width,
              " does not fit images of ", images.size(2), "x", images.size(3),
              "; crop less, pad or resize first");
}

class CentreCrop : public Transform {
 public:
  explicit CentreCrop(Size size) : size_(checked("centre_crop", size)) {}
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random&) const override {
    check_images("centre_crop", images, indices);
    check_window(images, size_);
    return images.narrow(2, (images.size(2) - size_.height) / 2, size_.height)
        .narrow(3, (images.size(3) - size_.width) / 2, size_.width)
        .contiguous();
  }

 private:
  Size size_;
};

class RandomCrop : public Transform {
 public:
  RandomCrop(Size size, std::int64_t padding)
      : size_(checked("random_crop", size)), padding_(padding) {
    SHEAF_CHECK(padding >= 0, "random_crop with a padding of ", padding,
                "; give 0 or more");
  }
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random& random) const override {
    check_images("random_crop", images, indices);
    const at::Tensor from = padded(images, padding_, 0).contiguous();
    check_window(from, size_);
    at::Tensor result =
        at::empty({from.size(0), from.size(1), size_.height, size_.width},
                  from.options());
    for (std::size_t i = 0; i < indices.size(); ++i)
      copy_window(from, result, static_cast<std::int64_t>(i),
                  random.derive(static_cast<std::uint64_t>(indices[i])));
    return result;
  }

 private:
  // Row by row as bytes: an operation of libtorch costs more than the copy.
  void copy_window(const at::Tensor& from, const at::Tensor& to,
                   std::int64_t example, Random random) const {
    const auto choices = [](std::int64_t outer, std::int64_t inner) {
      return static_cast<std::uint64_t>(outer - inner + 1);
    };
    const Size outer{from.size(2), from.size(3)};
    const auto top = static_cast<std::int64_t>(
        random.below(choices(outer.height, size_.height)));
    const auto left = static_cast<std::int64_t>(
        random.below(choices(outer.width, size_.width)));
    const auto bytes = static_cast<std::int64_t>(from.element_size());
    const auto* source = static_cast<const char*>(from.data_ptr());
    auto* target = static_cast<char*>(to.data_ptr());
    const std::int64_t planes = from.size(1);
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (std::int64_t row = 0; row < size_.height; ++row) {
        const std::int64_t image = example * planes + plane;
        const std::int64_t source_row = image * outer.height + top + row;
        const std::int64_t target_row = image * size_.height + row;
        std::memcpy(target + target_row * size_.width * bytes,
                    source + (source_row * outer.width + left) * bytes,
                    static_cast<std::size_t>(size_.width * bytes));
      }
  }

  Size size_;
  std::int64_t padding_;
};

class HorizontalFlip : public Transform {
 public:
  explicit HorizontalFlip(double probability) : probability_(probability) {
    SHEAF_CHECK(probability >= 0 && probability <= 1,
                "horizontal_flip with probability ", probability,
                "; it goes from 0 to 1");
  }
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random& random) const override {
    check_images("horizontal_flip", images, indices);
    std::vector<std::int64_t> turned;
    for (std::size_t i = 0; i < indices.size(); ++i)
      if (random.derive(static_cast<std::uint64_t>(indices[i])).uniform() <
          probability_)
        turned.push_back(static_cast<std::int64_t>(i));
    if (turned.empty()) return images;
    const at::Tensor rows = at::tensor(turned);
    return images.index_copy(0, rows, images.index_select(0, rows).flip(3));
  }

 private:
  double probability_;
};

at::Tensor resized(const at::Tensor& images, Size size) {
  if (images.size(2) == size.height && images.size(3) == size.width)
    return images;
  if (images.size(0) == 0)
    return at::empty({0, images.size(1), size.height, size.width},
                     images.options());
  const bool is_bytes = images.scalar_type() == at::kByte;
  const at::Tensor numbers = is_bytes ? images.to(at::kFloat) : images;
  const at::Tensor result = at::upsample_bilinear2d(
      numbers, {size.height, size.width}, /*align_corners=*/false);
  return is_bytes ? result.round().to(at::kByte) : result;
}

class Resize : public Transform {
 public:
  explicit Resize(Size size) : size_(checked("resize", size)) {}
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random&) const override {
    check_images("resize", images, indices);
    return resized(images, size_);
  }

 private:
  Size size_;
};

class ResizeShorter : public Transform {
 public:
  explicit ResizeShorter(std::int64_t size) : size_(size) {
    checked("resize_shorter", {size, size});
  }
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random&) const override {
    check_images("resize_shorter", images, indices);
    const std::int64_t height = images.size(2), width = images.size(3);
    const std::int64_t shorter = std::min(height, width);
    SHEAF_CHECK(shorter >= 1, "resize_shorter was given images of ", height,
                "x", width);
    return resized(images, {height * size_ / shorter, width * size_ / shorter});
  }

 private:
  std::int64_t size_;
};

}  // namespace

TransformPtr pad(std::int64_t pixels, double value) {
  return std::make_shared<Pad>(pixels, value);
}

TransformPtr random_crop(std::int64_t height, std::int64_t width,
                         std::int64_t padding) {
  return std::make_shared<RandomCrop>(Size{height, width}, padding);
}

TransformPtr centre_crop(std::int64_t height, std::int64_t width) {
  return std::make_shared<CentreCrop>(Size{height, width});
}

TransformPtr horizontal_flip(double probability) {
  return std::make_shared<HorizontalFlip>(probability);
}

TransformPtr resize(std::int64_t height, std::int64_t width) {
  return std::make_shared<Resize>(Size{height, width});
}

TransformPtr resize_shorter(std::int64_t size) {
  return std::make_shared<ResizeShorter>(size);
}

}  // namespace sheaf::data

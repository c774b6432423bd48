// Transforms that interpolate pixels, which need whole images.
#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/data/dataset/memory.hpp"
#include "sheaf/data/transform/transform.hpp"
#include "sheaf/data/transform/transform_check.hpp"

namespace sheaf::data {
namespace {

at::Tensor resized(const at::Tensor& images, ImageSize size) {
  if (images.size(2) == size.height && images.size(3) == size.width)
    return images;
  if (images.size(0) == 0)
    return at::empty({0, images.size(1), size.height, size.width},
                     images.options());
  const bool is_bytes = images.scalar_type() == at::kByte;
  const double bytes = static_cast<double>(images.size(0) * images.size(1)) *
                       static_cast<double>(size.height) *
                       static_cast<double>(size.width) * sizeof(float);
  at::Tensor result;
  with_memory(
      bytes,
      [&] {
        return concat(images.size(0), " images of ", images.size(1), "x",
                      size.height, "x", size.width,
                      " after resizing need more memory than this host has; "
                      "use a smaller size or a smaller batch");
      },
      [&] {
        const at::Tensor numbers = is_bytes ? images.to(at::kFloat) : images;
        result = at::upsample_bilinear2d(numbers, {size.height, size.width},
                                         /*align_corners=*/false);
        if (is_bytes) result = result.round().to(at::kByte);
      });
  return result;
}

class Resize : public Transform {
 public:
  explicit Resize(ImageSize size) : size_(checked_size("resize", size)) {}
  at::Tensor apply(const at::Tensor& images,
                   std::span<const std::int64_t> indices,
                   const Random&) const override {
    check_images("resize", images, indices);
    return resized(images, size_);
  }
  std::string needs_whole_images() const override { return "resize"; }

 private:
  ImageSize size_;
};

class ResizeShorter : public Transform {
 public:
  explicit ResizeShorter(std::int64_t size) : size_(size) {
    checked_size("resize_shorter", {size, size});
  }
  at::Tensor apply(const at::Tensor& images,
                   std::span<const std::int64_t> indices,
                   const Random&) const override {
    check_images("resize_shorter", images, indices);
    const std::int64_t height = images.size(2), width = images.size(3);
    const std::int64_t shorter = std::min(height, width);
    SHEAF_CHECK(shorter >= 1, "resize_shorter cannot resize images of ", height,
                "x", width);
    return resized(images, {height * size_ / shorter, width * size_ / shorter});
  }
  std::string needs_whole_images() const override { return "resize_shorter"; }

 private:
  std::int64_t size_;
};

}  // namespace

TransformPtr resize(std::int64_t height, std::int64_t width) {
  return std::make_shared<Resize>(ImageSize{height, width});
}

TransformPtr resize_shorter(std::int64_t size) {
  return std::make_shared<ResizeShorter>(size);
}

}  // namespace sheaf::data

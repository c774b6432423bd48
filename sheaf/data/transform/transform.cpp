// Transforms of pixel values: to_float, normalize; and compose.
#include "sheaf/data/transform/transform.hpp"

#include <ATen/Dispatch.h>

#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/data/transform/transform_check.hpp"

namespace sheaf::data {
namespace {

// Single-threaded: with libtorch's operators, loader workers would compete for
// libtorch's threads.
at::Tensor bytes_to_float(const at::Tensor& images) {
  const at::Tensor bytes = images.contiguous();
  at::Tensor result = at::empty(bytes.sizes(), at::TensorOptions(at::kFloat));
  const auto* from = bytes.data_ptr<std::uint8_t>();
  auto* to = result.data_ptr<float>();
  const std::int64_t count = bytes.numel();
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = static_cast<float>(from[i]) / 255.0f;
  return result;
}

at::Tensor as_float(const at::Tensor& images) {
  if (images.scalar_type() == at::kByte) return bytes_to_float(images);
  SHEAF_CHECK(at::isFloatingType(images.scalar_type()),
              "images must be bytes or floating-point numbers, but are ",
              c10::toString(images.scalar_type()));
  return images;
}

class ToFloat : public Transform {
 public:
  at::Tensor apply(const at::Tensor& images, std::span<const std::int64_t>,
                   const Random&) const override {
    return as_float(images);
  }
  std::string needs_whole_images() const override { return ""; }
};

class Normalize : public Transform {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std)
      : mean_(std::move(mean)), std_(std::move(std)) {
    SHEAF_CHECK(!mean_.empty() && mean_.size() == std_.size(),
                "normalize needs a mean and a std for each channel, but got ",
                mean_.size(), " and ", std_.size());
    for (const double one : std_)
      SHEAF_CHECK(one > 0, "normalize has a std of ", one,
                  "; it must be positive");
  }

  at::Tensor apply(const at::Tensor& images,
                   std::span<const std::int64_t> indices,
                   const Random&) const override {
    check_images("normalize", images, indices);
    const std::int64_t channels = images.size(1);
    const auto given = static_cast<std::int64_t>(mean_.size());
    SHEAF_CHECK(given == 1 || given == channels, "normalize has ", given,
                " means, the images have ", channels,
                " channels; give one value or one per channel");
    return normalized(as_float(images).contiguous());
  }
  std::string needs_whole_images() const override { return ""; }

 private:
  at::Tensor normalized(const at::Tensor& numbers) const {
    at::Tensor result = at::empty_like(numbers);
    AT_DISPATCH_FLOATING_TYPES_AND2(
        at::kHalf, at::kBFloat16, numbers.scalar_type(), "normalize", [&] {
          fill(numbers.data_ptr<scalar_t>(), result.data_ptr<scalar_t>(),
               numbers.size(1), numbers.size(2) * numbers.size(3),
               numbers.size(0));
        });
    return result;
  }

  // Single-threaded, like bytes_to_float().
  template <class T>
  void fill(const T* from, T* to, std::int64_t channels,
            std::int64_t plane_size, std::int64_t examples) const {
    for (std::int64_t plane = 0; plane < examples * channels; ++plane) {
      const auto channel =
          static_cast<std::size_t>(mean_.size() == 1 ? 0 : plane % channels);
      const T mean = static_cast<T>(mean_[channel]);
      const T std = static_cast<T>(std_[channel]);
      for (std::int64_t i = 0; i < plane_size; ++i)
        to[i] = (from[i] - mean) / std;
      from += plane_size;
      to += plane_size;
    }
  }

  std::vector<double> mean_;
  std::vector<double> std_;
};

class Compose : public Transform {
 public:
  explicit Compose(std::vector<TransformPtr> transforms)
      : transforms_(std::move(transforms)) {
    for (const TransformPtr& one : transforms_)
      SHEAF_CHECK(one, "a transform of compose is null");
  }

  at::Tensor apply(const at::Tensor& images,
                   std::span<const std::int64_t> indices,
                   const Random& random) const override {
    at::Tensor result = images;
    for (std::size_t i = 0; i < transforms_.size(); ++i)
      result = transforms_[i]->apply(result, indices, random.derive(i));
    return result;
  }

  std::string needs_whole_images() const override {
    for (const TransformPtr& one : transforms_)
      if (std::string name = one->needs_whole_images(); !name.empty())
        return name;
    return "";
  }
  Sizes image_after(const Sizes& image) const override {
    return images_between(image).back();
  }
  Place source_of(const Place& place, const Sizes& image, std::int64_t index,
                  const Random& random) const override {
    const std::vector<Sizes> images = images_between(image);
    return sources(place, images, index, random)[0];
  }

  at::Tensor apply_to_tiles(const at::Tensor& tiles,
                            std::span<const Place> places, const Sizes& image,
                            std::span<const std::int64_t> indices,
                            const Random& random) const override {
    const std::vector<Sizes> images = images_between(image);
    // By transform, then by example: the places of the tiles in its result.
    std::vector<std::vector<Place>> results(transforms_.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      const auto found = sources(places[i], images, indices[i], random);
      for (std::size_t k = 0; k < transforms_.size(); ++k)
        results[k].push_back(found[k + 1]);
    }
    at::Tensor result = tiles;
    for (std::size_t k = 0; k < transforms_.size(); ++k)
      result = transforms_[k]->apply_to_tiles(result, results[k], images[k],
                                              indices, random.derive(k));
    return result;
  }

 private:
  // The input size of each transform, and the output size of the last.
  std::vector<Sizes> images_between(const Sizes& image) const {
    std::vector<Sizes> images{image};
    for (const TransformPtr& one : transforms_)
      images.push_back(one->image_after(images.back()));
    return images;
  }
  // The same for the place of a tile, found backwards.
  std::vector<Place> sources(const Place& place,
                             const std::vector<Sizes>& images,
                             std::int64_t index, const Random& random) const {
    std::vector<Place> places(transforms_.size() + 1, place);
    for (std::size_t k = transforms_.size(); k-- > 0;)
      places[k] = transforms_[k]->source_of(places[k + 1], images[k], index,
                                            random.derive(k));
    return places;
  }

  std::vector<TransformPtr> transforms_;
};

}  // namespace

void check_images(std::string_view transform, const at::Tensor& images,
                  std::span<const std::int64_t> indices) {
  SHEAF_CHECK(images.dim() == 4, transform,
              " needs images [examples, channels, height, width], but got ",
              images.sizes());
  SHEAF_CHECK(images.size(0) == static_cast<std::int64_t>(indices.size()),
              transform, " got ", images.size(0), " images and ",
              indices.size(), " indices");
}

ImageSize checked_size(std::string_view transform, ImageSize size) {
  SHEAF_CHECK(size.height >= 1 && size.width >= 1, transform, " to ",
              size.height, "x", size.width, "; sizes must be at least 1");
  return size;
}

TransformPtr to_float() { return std::make_shared<ToFloat>(); }

TransformPtr normalize(std::vector<double> mean, std::vector<double> std) {
  return std::make_shared<Normalize>(std::move(mean), std::move(std));
}

TransformPtr compose(std::vector<TransformPtr> transforms) {
  return std::make_shared<Compose>(std::move(transforms));
}

}  // namespace sheaf::data

// Transforms that move pixels: pad, crop, flip.
#include <algorithm>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/data/transform/transform.hpp"
#include "sheaf/data/transform/transform_check.hpp"

namespace sheaf::data {
namespace {

using Indices = std::span<const std::int64_t>;

at::Tensor padded(const at::Tensor& images, std::int64_t pixels, double value) {
  if (pixels == 0) return images;
  const ImageSize inner{images.size(2), images.size(3)};
  at::Tensor result =
      at::full({images.size(0), images.size(1), inner.height + 2 * pixels,
                inner.width + 2 * pixels},
               value, images.options());
  result.narrow(2, pixels, inner.height)
      .narrow(3, pixels, inner.width)
      .copy_(images);
  return result;
}

ImageSize size_of(const Sizes& image) {
  SHEAF_CHECK(image.size() == 2, "images of ", image.size(),
              " axes besides channels; pad, crop and flip need exactly rows "
              "and columns");
  return {image[0], image[1]};
}

struct Range {
  std::int64_t begin;
  std::int64_t end;
};

// The rows or columns of a tile that are inside of an image of that size.
Range inside(std::int64_t begin, bool is_mirrored, std::int64_t tile,
             std::int64_t image) {
  const std::int64_t first = is_mirrored ? begin - image + 1 : -begin;
  const std::int64_t end = is_mirrored ? begin + 1 : image - begin;
  const std::int64_t from = std::clamp<std::int64_t>(first, 0, tile);
  return {from, std::clamp(end, from, tile)};
}

// Fills the pixels of a tile that are outside of the image.
void fill_outside(const at::Tensor& tile, const Place& place, ImageSize image,
                  double value) {
  const std::int64_t height = tile.size(1), width = tile.size(2);
  const Range rows = inside(place.begin[0], false, height, image.height);
  const Range columns =
      inside(place.begin[1], place.is_mirrored, width, image.width);
  if (rows.begin == 0 && rows.end == height && columns.begin == 0 &&
      columns.end == width)
    return;
  tile.narrow(1, 0, rows.begin).fill_(value);
  tile.narrow(1, rows.end, height - rows.end).fill_(value);
  tile.narrow(2, 0, columns.begin).fill_(value);
  tile.narrow(2, columns.end, width - columns.end).fill_(value);
}

Place shifted(Place place, std::int64_t down, std::int64_t right) {
  place.begin[0] += down;
  place.begin[1] += right;
  return place;
}

class Pad : public Transform {
 public:
  Pad(std::int64_t pixels, double value) : pixels_(pixels), value_(value) {
    SHEAF_CHECK(pixels >= 0, "pad by ", pixels, " pixels; use 0 or more");
  }
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random&) const override {
    check_images("pad", images, indices);
    return padded(images, pixels_, value_);
  }
  std::string needs_whole_images() const override { return ""; }
  Sizes image_after(const Sizes& image) const override {
    const ImageSize size = size_of(image);
    return {size.height + 2 * pixels_, size.width + 2 * pixels_};
  }
  Place source_of(const Place& place, const Sizes&, std::int64_t,
                  const Random&) const override {
    return shifted(place, -pixels_, -pixels_);
  }
  at::Tensor apply_to_tiles(const at::Tensor& tiles,
                            std::span<const Place> places, const Sizes& image,
                            Indices, const Random&) const override {
    for (std::size_t i = 0; i < places.size(); ++i)
      fill_outside(tiles[static_cast<std::int64_t>(i)],
                   shifted(places[i], -pixels_, -pixels_), size_of(image),
                   value_);
    return tiles;
  }

 private:
  std::int64_t pixels_;
  double value_;
};

void check_window(ImageSize image, ImageSize size) {
  SHEAF_CHECK(image.height >= size.height && image.width >= size.width,
              "a crop of ", size.height, "x", size.width,
              " does not fit images of ", image.height, "x", image.width,
              "; use a smaller crop, or pad or resize first");
}

class CenterCrop : public Transform {
 public:
  explicit CenterCrop(ImageSize size)
      : size_(checked_size("center_crop", size)) {}
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random&) const override {
    check_images("center_crop", images, indices);
    check_window({images.size(2), images.size(3)}, size_);
    return images.narrow(2, (images.size(2) - size_.height) / 2, size_.height)
        .narrow(3, (images.size(3) - size_.width) / 2, size_.width)
        .contiguous();
  }
  std::string needs_whole_images() const override { return ""; }
  Sizes image_after(const Sizes& image) const override {
    check_window(size_of(image), size_);
    return {size_.height, size_.width};
  }
  Place source_of(const Place& place, const Sizes& image, std::int64_t,
                  const Random&) const override {
    return shifted(place, (image[0] - size_.height) / 2,
                   (image[1] - size_.width) / 2);
  }
  at::Tensor apply_to_tiles(const at::Tensor& tiles, std::span<const Place>,
                            const Sizes&, Indices,
                            const Random&) const override {
    return tiles;
  }

 private:
  ImageSize size_;
};

class RandomCrop : public Transform {
 public:
  RandomCrop(ImageSize size, std::int64_t padding)
      : size_(checked_size("random_crop", size)), padding_(padding) {
    SHEAF_CHECK(padding >= 0, "random_crop with a padding of ", padding,
                "; use 0 or more");
  }
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random& random) const override {
    check_images("random_crop", images, indices);
    const at::Tensor from = padded(images, padding_, 0).contiguous();
    check_window({from.size(2), from.size(3)}, size_);
    at::Tensor result =
        at::empty({from.size(0), from.size(1), size_.height, size_.width},
                  from.options());
    for (std::size_t i = 0; i < indices.size(); ++i)
      copy_window(from, result, static_cast<std::int64_t>(i),
                  random.derive(static_cast<std::uint64_t>(indices[i])));
    return result;
  }
  std::string needs_whole_images() const override { return ""; }
  Sizes image_after(const Sizes& image) const override {
    check_window(with_padding(image), size_);
    return {size_.height, size_.width};
  }
  Place source_of(const Place& place, const Sizes& image, std::int64_t index,
                  const Random& random) const override {
    const ImageSize corner = draw(
        with_padding(image), random.derive(static_cast<std::uint64_t>(index)));
    return shifted(place, corner.height - padding_, corner.width - padding_);
  }
  at::Tensor apply_to_tiles(const at::Tensor& tiles,
                            std::span<const Place> places, const Sizes& image,
                            Indices indices,
                            const Random& random) const override {
    for (std::size_t i = 0; padding_ > 0 && i < places.size(); ++i)
      fill_outside(tiles[static_cast<std::int64_t>(i)],
                   source_of(places[i], image, indices[i], random),
                   size_of(image), 0);
    return tiles;
  }

 private:
  ImageSize with_padding(const Sizes& image) const {
    const ImageSize size = size_of(image);
    return {size.height + 2 * padding_, size.width + 2 * padding_};
  }

  // The upper left corner of an example's window.
  ImageSize draw(ImageSize outer, Random random) const {
    const auto below = [&random](std::int64_t outer, std::int64_t inner) {
      const auto choices = static_cast<std::uint64_t>(outer - inner + 1);
      return static_cast<std::int64_t>(random.below(choices));
    };
    const std::int64_t top = below(outer.height, size_.height);
    return {top, below(outer.width, size_.width)};
  }

  // Copies rows as bytes: calling a libtorch operator costs more than the copy.
  void copy_window(const at::Tensor& from, const at::Tensor& to,
                   std::int64_t example, Random random) const {
    const ImageSize outer{from.size(2), from.size(3)};
    const auto [top, left] = draw(outer, random);
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

  ImageSize size_;
  std::int64_t padding_;
};

class HorizontalFlip : public Transform {
 public:
  explicit HorizontalFlip(double probability) : probability_(probability) {
    SHEAF_CHECK(probability >= 0 && probability <= 1,
                "horizontal_flip with probability ", probability,
                "; it must be from 0 to 1");
  }
  at::Tensor apply(const at::Tensor& images, Indices indices,
                   const Random& random) const override {
    check_images("horizontal_flip", images, indices);
    std::vector<std::int64_t> turned;
    for (std::size_t i = 0; i < indices.size(); ++i)
      if (is_turned(indices[i], random))
        turned.push_back(static_cast<std::int64_t>(i));
    return with_turned_rows(images, turned);
  }
  std::string needs_whole_images() const override { return ""; }
  Sizes image_after(const Sizes& image) const override {
    size_of(image);
    return image;
  }
  Place source_of(const Place& place, const Sizes& image, std::int64_t index,
                  const Random& random) const override {
    if (!is_turned(index, random)) return place;
    Place source = place;
    source.begin[1] = image[1] - 1 - place.begin[1];
    source.is_mirrored = !place.is_mirrored;
    return source;
  }
  // The tiles were already mirrored when they were read.
  at::Tensor apply_to_tiles(const at::Tensor& tiles, std::span<const Place>,
                            const Sizes&, Indices,
                            const Random&) const override {
    return tiles;
  }

 private:
  bool is_turned(std::int64_t index, const Random& random) const {
    return random.derive(static_cast<std::uint64_t>(index)).uniform() <
           probability_;
  }

  double probability_;
};

}  // namespace

at::Tensor with_turned_rows(const at::Tensor& images,
                            const std::vector<std::int64_t>& which) {
  if (which.empty()) return images;
  const at::Tensor rows = at::tensor(which);
  return images.index_copy(0, rows, images.index_select(0, rows).flip(3));
}

TransformPtr pad(std::int64_t pixels, double value) {
  return std::make_shared<Pad>(pixels, value);
}

TransformPtr random_crop(std::int64_t height, std::int64_t width,
                         std::int64_t padding) {
  return std::make_shared<RandomCrop>(ImageSize{height, width}, padding);
}

TransformPtr center_crop(std::int64_t height, std::int64_t width) {
  return std::make_shared<CenterCrop>(ImageSize{height, width});
}

TransformPtr horizontal_flip(double probability) {
  return std::make_shared<HorizontalFlip>(probability);
}

}  // namespace sheaf::data

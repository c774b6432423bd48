#pragma once
// Image transforms between the dataset and the network.
//
// A transform maps images [examples, channels, height, width] of bytes or
// floating-point numbers to new images; it does not modify its input. Random
// transforms use a separate random stream for each example, so the result
// depends only on seed, epoch and example.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/data/dataset/box.hpp"
#include "sheaf/data/dataset/random.hpp"

namespace sheaf::data {

// The position of a tile in an image: row i, column j of the tile is row
// begin[0] + i of the image, and column begin[1] + j, or begin[1] - j if it is
// mirrored. The tile may be outside of the image.
struct Place {
  Corner begin{};
  bool is_mirrored = false;
};

class Transform {
 public:
  virtual ~Transform() = default;

  // Row i of `images` is example indices[i]; zero rows are allowed. `random` is
  // the epoch's stream. Thread-safe. Throws UsageError for a shape or type that
  // the transform does not support.
  virtual at::Tensor apply(const at::Tensor& images,
                           std::span<const std::int64_t> indices,
                           const Random& random) const = 0;

  // Empty if tiles of the result can be computed from tiles of the images; the
  // three functions below then describe how. Otherwise the name of the
  // transform that needs whole images.
  virtual std::string needs_whole_images() const { return "the transform"; }
  // The size of the result for images of size `image` (rows, columns).
  virtual Sizes image_after(const Sizes& image) const { return image; }
  // The place in the image whose pixels move to `place` in the result.
  virtual Place source_of(const Place& place, const Sizes& /*image*/,
                          std::int64_t /*index*/,
                          const Random& /*random*/) const {
    return place;
  }
  // Computes the pixels at places[i] of the result. tiles[i] has the pixels at
  // the source of that place in an image of size `image`; values outside of the
  // image are unspecified. May modify `tiles`.
  virtual at::Tensor apply_to_tiles(const at::Tensor& tiles,
                                    std::span<const Place> /*places*/,
                                    const Sizes& /*image*/,
                                    std::span<const std::int64_t> indices,
                                    const Random& random) const {
    return apply(tiles, indices, random);
  }
};

using TransformPtr = std::shared_ptr<const Transform>;

// Converts bytes to float32 in [0, 1]; floating-point numbers are unchanged.
// Accepts any shape.
TransformPtr to_float();

// (x - mean) / std for each channel, after to_float(). A single value applies
// to all channels. Throws UsageError unless mean and std have the same length
// and std is positive.
TransformPtr normalize(std::vector<double> mean, std::vector<double> std);
// Former name of normalize().
inline TransformPtr normalise(std::vector<double> mean,
                              std::vector<double> std) {
  return normalize(std::move(mean), std::move(std));
}

// Adds `pixels` pixels of `value` on all four sides.
TransformPtr pad(std::int64_t pixels, double value = 0);

// Crops a window of the given size, at a random place or at the center (rounded
// to the upper left). random_crop first pads with `padding` zero pixels on each
// side.
TransformPtr random_crop(std::int64_t height, std::int64_t width,
                         std::int64_t padding = 0);
TransformPtr center_crop(std::int64_t height, std::int64_t width);
// Former name of center_crop().
inline TransformPtr centre_crop(std::int64_t height, std::int64_t width) {
  return center_crop(height, width);
}

// Mirrors an image left to right, with the given probability.
TransformPtr horizontal_flip(double probability = 0.5);

// Bilinear interpolation without antialiasing, as torch's
// interpolate(align_corners=False). Bytes are rounded and stay bytes.
TransformPtr resize(std::int64_t height, std::int64_t width);
// Resizes the shorter side to `size` and keeps the aspect ratio.
TransformPtr resize_shorter(std::int64_t size);

// Applies the transforms in order. Each has a separate random stream. Throws
// UsageError if one is null.
TransformPtr compose(std::vector<TransformPtr> transforms);

}  // namespace sheaf::data

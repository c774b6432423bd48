#pragma once
// What is done to images between the dataset and the network.
//
// A transform takes images [examples, channels, height, width] as bytes or
// floating-point numbers and gives new ones; it does not change its input.
// Those that draw lots draw them for each example from its own stream, so the
// result depends on seed, epoch and example alone.

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sheaf/data/dataset/box.hpp"
#include "sheaf/data/dataset/random.hpp"

namespace sheaf::data {

// Where the pixels of a tile are in an image: row i, column j of the tile is
// row begin[0] + i of the image, and column begin[1] + j, or begin[1] - j if it
// is mirrored. They may lie outside of the image.
struct Place {
  Corner begin{};
  bool is_mirrored = false;
};

class Transform {
 public:
  virtual ~Transform() = default;

  // Row i of `images` is example indices[i]; no rows are fine, too. `random`
  // is that of the epoch. Any number of threads may call it at once.
  // UsageError for a shape or type that the transform cannot do.
  virtual at::Tensor apply(const at::Tensor& images,
                           std::span<const std::int64_t> indices,
                           const Random& random) const = 0;

  // The name of a transform that cannot make tiles of its result of tiles of
  // its images; empty: it can, and these three say how.
  virtual std::string needs_whole_images() const { return "the transform"; }
  // The sizes, from rows on, of what comes out of images of those sizes.
  virtual Sizes image_after(const Sizes& image) const { return image; }
  // Where the pixels are that come to `place` in the result of an example.
  virtual Place source_of(const Place& place, const Sizes& /*image*/,
                          std::int64_t /*index*/,
                          const Random& /*random*/) const {
    return place;
  }
  // The pixels at places[i] of the result, of those at their sources in images
  // of the sizes `image`; tiles have any values outside of these. May change
  // what it is given.
  virtual at::Tensor apply_to_tiles(const at::Tensor& tiles,
                                    std::span<const Place> /*places*/,
                                    const Sizes& /*image*/,
                                    std::span<const std::int64_t> indices,
                                    const Random& random) const {
    return apply(tiles, indices, random);
  }
};

using TransformPtr = std::shared_ptr<const Transform>;

// Bytes become float32 from 0 to 1; floating-point numbers stay. Of any shape.
TransformPtr to_float();

// (x - mean) / std for each channel, after to_float(). One value stands for all
// channels.
TransformPtr normalise(std::vector<double> mean, std::vector<double> std);

// `pixels` more on all four sides, filled with `value`.
TransformPtr pad(std::int64_t pixels, double value = 0);

// A window of that size: at a random place, or in the middle (rounded to the
// upper left). random_crop pads with `padding` zero pixels on each side first.
TransformPtr random_crop(std::int64_t height, std::int64_t width,
                         std::int64_t padding = 0);
TransformPtr centre_crop(std::int64_t height, std::int64_t width);

// Left becomes right, with this probability.
TransformPtr horizontal_flip(double probability = 0.5);

// Bilinear, without smoothing first: the corners of the pixels are aligned as
// in torch's interpolate(align_corners=False). Bytes stay bytes, rounded.
TransformPtr resize(std::int64_t height, std::int64_t width);
// The shorter side becomes `size`, the other keeps the ratio.
TransformPtr resize_shorter(std::int64_t size);

// One after the other. Each draws from a stream of its own.
TransformPtr compose(std::vector<TransformPtr> transforms);

}  // namespace sheaf::data

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
#include <vector>

#include "sheaf/data/random.hpp"

namespace sheaf::data {

class Transform {
 public:
  virtual ~Transform() = default;

  // Row i of `images` is example indices[i]; no rows are fine, too. `random`
  // is that of the epoch. Any number of threads may call it at once.
  // UsageError for a shape or type that the transform cannot do.
  virtual at::Tensor apply(const at::Tensor& images,
                           std::span<const std::int64_t> indices,
                           const Random& random) const = 0;
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

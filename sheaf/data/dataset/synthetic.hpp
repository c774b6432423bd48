#pragma once
// Synthetic images: fast to generate, any number, any shape, and learnable.

#include <cstdint>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

struct SyntheticOptions {
  std::int64_t examples = 10000;
  std::int64_t classes = 10;
  std::vector<std::int64_t> shape = {1, 28, 28};
  double noise = 0.5;      // fraction of noise in an example, 0 to 1
  bool is_tokens = false;  // integers from 1 to 256 instead of bytes
  std::uint64_t seed = 0;
  // The number of the first example. A test set has the same seed as the
  // training set, and thus the same classes, and begins where that ends.
  std::int64_t first = 0;
};

// Each class has a prototype image of random bytes, determined by the seed. An
// example is the prototype of its class mixed with noise. Everything is a
// function of the options and the example's number; only the prototypes are
// stored.
class SyntheticDataset : public Dataset {
 public:
  // Throws UsageError for invalid options and if the prototypes do not fit in
  // memory.
  explicit SyntheticDataset(SyntheticOptions options = {});

  std::int64_t size() const override { return options_.examples; }
  Batch get(std::span<const std::int64_t> indices,
            Random& random) const override;
  // Generates only the elements in the boxes.
  Batch get_boxes(std::span<const std::int64_t> indices, const Boxes& boxes,
                  Random& random) const override;
  std::string reads_whole_for() const override { return ""; }
  std::string source() const override { return "synthetic images"; }
  std::int64_t classes() const override { return options_.classes; }
  std::vector<std::int64_t> example_shape() const override {
    return options_.shape;
  }

 private:
  // The class of an example. Sets `own` to the example's stream, positioned
  // after the number for the class.
  std::int64_t label_of(std::int64_t index, Random& own) const;
  // Generates `count` bytes of an image of a class, starting at byte `first`.
  void mix(std::uint8_t* bytes, std::int64_t label, Random noise,
           std::int64_t first, std::int64_t count) const;

  SyntheticOptions options_;
  std::int64_t bytes_ = 1;  // size of an example
  std::vector<std::uint8_t> prototypes_;
};

}  // namespace sheaf::data

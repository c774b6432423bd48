#pragma once
// Images that nobody took: quick to make, any number, any shape, learnable.

#include <cstdint>
#include <vector>

#include "sheaf/data/dataset/dataset.hpp"

namespace sheaf::data {

struct SyntheticOptions {
  std::int64_t examples = 10000;
  std::int64_t classes = 10;
  std::vector<std::int64_t> shape = {1, 28, 28};
  double noise = 0.5;      // share of an example that is noise, 0 to 1
  bool is_tokens = false;  // whole numbers from 1 to 256 in place of bytes
  std::uint64_t seed = 0;
  // The number of the first example. A test set has the seed of the training
  // set, so the same classes, and begins where that ends.
  std::int64_t first = 0;
};

// Each class has an image of random bytes, the same for one seed. An example is
// the image of its class mixed with noise of its own. All of it is a function
// of the options and the example's number; nothing is kept but the classes'
// images.
class SyntheticDataset : public Dataset {
 public:
  explicit SyntheticDataset(SyntheticOptions options = {});

  std::int64_t size() const override { return options_.examples; }
  Batch get(std::span<const std::int64_t> indices,
            Random& random) const override;
  // Only what is in the boxes is made.
  Batch get_boxes(std::span<const std::int64_t> indices, const Boxes& boxes,
                  Random& random) const override;
  std::string reads_whole_for() const override { return ""; }
  std::string source() const override { return "images made of numbers"; }
  std::int64_t classes() const override { return options_.classes; }
  std::vector<std::int64_t> example_shape() const override {
    return options_.shape;
  }

 private:
  // The class of an example; `own` is its stream, and goes on behind that.
  std::int64_t label_of(std::int64_t index, Random& own) const;
  // Some bytes of an image of that class, from number `first` on.
  void mix(std::uint8_t* bytes, std::int64_t label, Random noise,
           std::int64_t first, std::int64_t count) const;

  SyntheticOptions options_;
  std::int64_t bytes_ = 1;  // of an example
  std::vector<std::uint8_t> prototypes_;
};

}  // namespace sheaf::data

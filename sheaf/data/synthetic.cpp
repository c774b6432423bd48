#include "sheaf/data/synthetic.hpp"

#include <utility>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

enum Stream : std::uint64_t { kPrototypes = 1, kExamples = 2 };

void check(const SyntheticOptions& options) {
  SHEAF_CHECK(options.examples >= 0 && options.first >= 0,
              "a synthetic dataset of ", options.examples,
              " examples from number ", options.first,
              "; neither may be negative");
  SHEAF_CHECK(options.classes >= 1,
              "a synthetic dataset has at least 1 class, ", options.classes,
              " were asked for");
  SHEAF_CHECK(options.noise >= 0 && options.noise <= 1, "noise is ",
              options.noise, "; it goes from 0 to 1");
  for (const std::int64_t size : options.shape)
    SHEAF_CHECK(size >= 1, "the shape ", at::IntArrayRef(options.shape),
                " of an example has a size below 1");
}

// Each number gives eight bytes, the lowest first on every machine.
class ByteSource {
 public:
  explicit ByteSource(Random random) : random_(random) {}
  std::uint8_t next() {
    if (left_ == 0) bits_ = random_.next();
    left_ = left_ == 0 ? 7 : left_ - 1;
    const auto byte = static_cast<std::uint8_t>(bits_);
    bits_ >>= 8;
    return byte;
  }

 private:
  Random random_;
  std::uint64_t bits_ = 0;
  int left_ = 0;
};

}  // namespace

SyntheticDataset::SyntheticDataset(SyntheticOptions options)
    : options_(std::move(options)) {
  check(options_);
  for (const std::int64_t size : options_.shape) bytes_ *= size;
  ByteSource source(Random(options_.seed).derive(kPrototypes));
  prototypes_.resize(static_cast<std::size_t>(options_.classes * bytes_));
  for (std::uint8_t& byte : prototypes_) byte = source.next();
}

void SyntheticDataset::mix(std::uint8_t* image, std::int64_t label,
                           Random noise) const {
  const auto weight = static_cast<std::uint32_t>(options_.noise * 256);
  const std::uint8_t* prototype = prototypes_.data() + label * bytes_;
  ByteSource source(noise);
  for (std::int64_t i = 0; i < bytes_; ++i)
    image[i] = static_cast<std::uint8_t>(
        ((256 - weight) * prototype[i] + weight * source.next()) / 256);
}

Batch SyntheticDataset::get(std::span<const std::int64_t> indices,
                            Random& /*random*/) const {
  check_indices(indices);
  const auto count = static_cast<std::int64_t>(indices.size());
  std::vector<std::int64_t> shape = options_.shape;
  shape.insert(shape.begin(), count);
  Batch batch{at::empty(shape, at::TensorOptions(at::kByte)),
              at::empty({count}, at::TensorOptions(at::kLong)), 0, count};
  auto* images = batch.data.data_ptr<std::uint8_t>();
  auto* labels = batch.target.data_ptr<std::int64_t>();
  const Random examples = Random(options_.seed).derive(kExamples);
  for (const std::int64_t index : indices) {
    Random own =
        examples.derive(static_cast<std::uint64_t>(options_.first + index));
    *labels = static_cast<std::int64_t>(
        own.below(static_cast<std::uint64_t>(options_.classes)));
    mix(images, *labels++, own);
    images += bytes_;
  }
  return batch;
}

}  // namespace sheaf::data

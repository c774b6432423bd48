#include "sheaf/data/dataset/synthetic.hpp"

#include <cstring>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/data/dataset/memory.hpp"

namespace sheaf::data {
namespace {

enum Stream : std::uint64_t { kPrototypes = 1, kExamples = 2 };

void check(const SyntheticOptions& options) {
  SHEAF_CHECK(options.examples >= 0 && options.first >= 0,
              "a synthetic dataset of ", options.examples,
              " examples from number ", options.first,
              "; neither number may be negative");
  SHEAF_CHECK(options.classes >= 1,
              "a synthetic dataset needs at least 1 class, but got ",
              options.classes);
  SHEAF_CHECK(options.noise >= 0 && options.noise <= 1, "noise is ",
              options.noise, "; it must be from 0 to 1");
  SHEAF_CHECK(!options.shape.empty(),
              "the shape of an example is empty; it needs at least one axis");
  for (const std::int64_t size : options.shape)
    SHEAF_CHECK(size >= 1, "the shape ", at::IntArrayRef(options.shape),
                " of an example has a size below 1");
}

double bytes_of_classes(const SyntheticOptions& options) {
  auto bytes = static_cast<double>(options.classes);
  for (const std::int64_t size : options.shape)
    bytes *= static_cast<double>(size);
  return bytes;
}

// Splits each random number into eight bytes, lowest first on every machine.
class ByteSource {
 public:
  explicit ByteSource(Random random, std::int64_t first = 0) : random_(random) {
    random_.skip(static_cast<std::uint64_t>(first / 8));
    for (std::int64_t i = 0; i < first % 8; ++i) next();
  }
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
  const double bytes = bytes_of_classes(options_);
  const auto text = [&] {
    return concat("the images of ", options_.classes, " synthetic classes of ",
                  at::IntArrayRef(options_.shape), " need ", bytes / 1e9,
                  " GB, more memory than this host has; use fewer classes or a "
                  "smaller shape");
  };
  with_memory(bytes, text, [&] {
    for (const std::int64_t size : options_.shape) bytes_ *= size;
    prototypes_.resize(static_cast<std::size_t>(options_.classes * bytes_));
  });
  ByteSource source(Random(options_.seed).derive(kPrototypes));
  for (std::uint8_t& byte : prototypes_) byte = source.next();
}

void SyntheticDataset::mix(std::uint8_t* bytes, std::int64_t label,
                           Random noise, std::int64_t first,
                           std::int64_t count) const {
  const auto weight = static_cast<std::uint32_t>(options_.noise * 256);
  const std::uint8_t* prototype = prototypes_.data() + label * bytes_ + first;
  ByteSource source(noise, first);
  for (std::int64_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::uint8_t>(
        ((256 - weight) * prototype[i] + weight * source.next()) / 256);
}

std::int64_t SyntheticDataset::label_of(std::int64_t index, Random& own) const {
  own = Random(options_.seed)
            .derive(kExamples)
            .derive(static_cast<std::uint64_t>(options_.first + index));
  return static_cast<std::int64_t>(
      own.below(static_cast<std::uint64_t>(options_.classes)));
}

Batch SyntheticDataset::get(std::span<const std::int64_t> indices,
                            Random& random) const {
  const Sizes image(options_.shape.begin() + !options_.shape.empty(),
                    options_.shape.end());
  return get_boxes(indices, {image, std::vector<Corner>(indices.size())},
                   random);
}

Batch SyntheticDataset::get_boxes(std::span<const std::int64_t> indices,
                                  const Boxes& boxes,
                                  Random& /*random*/) const {
  check_indices(indices);
  const auto count = static_cast<std::int64_t>(indices.size());
  const BoxWalk walk(options_.shape, boxes.size);
  Sizes shape = walk.box_shape();
  shape.insert(shape.begin(), count);
  Batch batch{at::empty(shape, at::TensorOptions(at::kByte)),
              at::empty({count}, at::TensorOptions(at::kLong)), 0, count};
  auto* images = batch.data.data_ptr<std::uint8_t>();
  auto* labels = batch.target.data_ptr<std::int64_t>();
  if (count > 0) std::memset(images, 0, batch.data.nbytes());
  const at::Tensor is_inside =
      at::zeros(options_.is_tokens ? shape : Sizes{0}, batch.data.options());
  auto* inside = is_inside.data_ptr<std::uint8_t>();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    Random own;
    const std::int64_t label = labels[i] = label_of(indices[i], own);
    walk.for_each_run(boxes.begin[i], [&](auto first, auto to, auto bytes) {
      mix(images + to, label, own, first, bytes);
      if (options_.is_tokens)
        std::memset(inside + to, 1, static_cast<std::size_t>(bytes));
      batch.bytes_read += bytes;
    });
    images += walk.box_elements();
    if (options_.is_tokens) inside += walk.box_elements();
  }
  if (options_.is_tokens) batch.data = batch.data.to(at::kLong) + is_inside;
  return batch;
}

}  // namespace sheaf::data

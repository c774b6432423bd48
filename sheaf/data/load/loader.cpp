#include "sheaf/data/load/loader.hpp"

#include <torch/cuda.h>

#include <algorithm>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/data/load/prefetch.hpp"
#include "sheaf/data/load/read_tiles.hpp"

namespace sheaf::data {
namespace {

// A key for the transforms' random streams, different from the sampler's.
constexpr std::uint64_t kTransformStream = 0x7472616e73;

std::int64_t global_batch_of(const LoaderOptions& options, int ranks) {
  SHEAF_CHECK((options.batch_size > 0) != (options.global_batch > 0) &&
                  options.batch_size >= 0 && options.global_batch >= 0,
              "a loader with batch_size ", options.batch_size,
              " and global_batch ", options.global_batch,
              "; set exactly one of them, to at least 1");
  return options.batch_size > 0 ? options.batch_size * ranks
                                : options.global_batch;
}

SamplerOptions sampler_options(const LoaderOptions& options,
                               std::int64_t global_batch) {
  return {.global_batch = global_batch,
          .seed = options.seed,
          .shuffle = options.shuffle,
          .drop_last = options.drop_last,
          .order = options.order,
          .sites = options.sites,
          .shares = options.shares,
          .avoids_single_rows = options.avoids_single_rows};
}

std::shared_ptr<const Dataset> checked(std::shared_ptr<const Dataset> dataset) {
  SHEAF_CHECK(dataset, "the dataset of a loader is null");
  return dataset;
}

at::Tensor as_numbers(const at::Tensor& data, const LoaderOptions& options) {
  if (!options.to_float || data.scalar_type() != at::kByte) return data;
  return to_float()->apply(data, {}, Random());
}

at::Tensor transformed(const at::Tensor& data, const LoaderOptions& options,
                       std::span<const std::int64_t> indices,
                       const Random& random) {
  if (!options.transform) return as_numbers(data, options);
  return as_numbers(options.transform->apply(data, indices, random), options);
}

void pin(Batch& batch) {
  if (!torch::cuda::is_available()) return;
  batch.data = batch.data.pin_memory();
  batch.target = batch.target.pin_memory();
}

// The state of a worker, held by value, since the loader may be moved.
struct BatchMaker {
  std::shared_ptr<const Dataset> dataset;
  LoaderOptions options;
  std::shared_ptr<const Sampler> sampler;

  Batch operator()(std::int64_t number) const {
    const std::vector<std::int64_t> indices = sampler->share(number);
    Random random = Random(options.seed)
                        .derive(kTransformStream)
                        .derive(static_cast<std::uint64_t>(sampler->epoch()));
    Batch batch = read(indices, random);
    if (options.tile) cut_targets(batch, options.tile);
    batch.first_index = sampler->first_index(number);
    batch.global_size = sampler->global_size(number);
    if (options.pin_memory) pin(batch);
    return batch;
  }

  Batch read(const std::vector<std::int64_t>& indices, Random& random) const {
    const Transform* transform = options.transform.get();
    if (options.tile && reads_whole_for(*dataset, transform).empty()) {
      Batch batch =
          read_tiles(*dataset, transform, options.tile, indices, random);
      batch.data = as_numbers(batch.data, options);
      return batch;
    }
    Batch batch = dataset->get(indices, random);
    batch.bytes_read = static_cast<std::int64_t>(batch.data.nbytes());
    batch.data = transformed(batch.data, options, indices, random);
    if (options.tile) cut_tiles(batch, options.tile);
    return batch;
  }
};

}  // namespace

Loader::Loader(std::shared_ptr<const Dataset> dataset, int rank, int ranks,
               LoaderOptions options)
    : dataset_(checked(std::move(dataset))),
      options_(std::move(options)),
      global_batch_(global_batch_of(options_, ranks)),
      sampler_(dataset_->size(), rank, ranks,
               sampler_options(options_, global_batch_)) {
  SHEAF_CHECK(options_.workers >= 0 && options_.prefetch >= 1, "a loader with ",
              options_.workers, " workers and ", options_.prefetch,
              " prefetched batches each; use at least 0 workers and 1 batch");
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const comm::Group& group,
               LoaderOptions options)
    : Loader(std::move(dataset), group.rank(), group.size(),
             std::move(options)) {}

Loader::Loader(Loader&& other) noexcept = default;
Loader& Loader::operator=(Loader&& other) noexcept = default;
Loader::~Loader() = default;

Loader::Iterator Loader::begin() {
  if (is_running_) end_epoch();
  is_running_ = true;
  prefetcher_ = std::make_unique<Prefetcher>(
      BatchMaker{dataset_, options_, std::make_shared<const Sampler>(sampler_)},
      PrefetchOptions{
          .begin = position_,
          .end = batches(),
          .workers = options_.workers,
          .ahead = std::max(1, options_.workers * options_.prefetch)});
  return advance() ? Iterator(this) : end();
}

bool Loader::advance() {
  SHEAF_CHECK(prefetcher_, "a loader's epoch has ended; call begin() again");
  current_ = {};
  std::optional<Batch> batch = prefetcher_->next();
  if (!batch) {
    end_epoch();
    return false;
  }
  current_ = std::move(*batch);
  ++position_;
  return true;
}

void Loader::end_epoch() { set_epoch(sampler_.epoch() + 1); }

void Loader::set_epoch(std::int64_t epoch) {
  sampler_.set_epoch(epoch);
  prefetcher_.reset();
  current_ = {};
  is_running_ = false;
  position_ = 0;
}

void Loader::start_at(std::int64_t batch) {
  SHEAF_CHECK(batch >= 0 && batch <= batches(),
              "a loader cannot start at batch ", batch, "; the epoch has ",
              batches(), " batches, numbered from 0");
  set_epoch(is_running_ ? sampler_.epoch() + 1 : sampler_.epoch());
  position_ = batch;
}

std::vector<std::int64_t> Loader::example_shape() const {
  std::vector<std::int64_t> shape = dataset_->example_shape();
  shape.insert(shape.begin(), 0);
  const at::Tensor none = at::empty(shape, at::TensorOptions(at::kByte));
  return transformed(none, options_, {}, Random()).sizes().slice(1).vec();
}

std::string Loader::reading() const {
  if (!options_.tile) return "whole images";
  const std::string reason =
      reads_whole_for(*dataset_, options_.transform.get());
  return reason.empty() ? "tiles of " + dataset_->source()
                        : "whole images and cuts its tile: " + reason;
}

Loader::Iterator& Loader::Iterator::operator++() {
  if (!loader_->advance()) loader_ = nullptr;
  return *this;
}

}  // namespace sheaf::data

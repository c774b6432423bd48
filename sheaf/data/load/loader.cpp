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

// Iterators refer to it, so it stays in place when the loader is moved.
struct Loader::State {
  std::shared_ptr<const Dataset> dataset;
  LoaderOptions options;
  std::int64_t global_batch;
  Sampler sampler;
  std::int64_t position = 0;
  bool is_running = false;
  Batch current = {};
  std::unique_ptr<Prefetcher> prefetcher = {};

  void begin();
  bool advance();
  void set_epoch(std::int64_t epoch);
  void end_epoch() { set_epoch(sampler.epoch() + 1); }
};

void Loader::State::begin() {
  if (is_running) end_epoch();
  is_running = true;
  prefetcher = std::make_unique<Prefetcher>(
      BatchMaker{dataset, options, std::make_shared<const Sampler>(sampler)},
      PrefetchOptions{
          .begin = position,
          .end = sampler.batches(),
          .workers = options.workers,
          .ahead = std::max(1, options.workers * options.prefetch)});
}

bool Loader::State::advance() {
  SHEAF_CHECK(prefetcher, "a loader's epoch has ended; call begin() again");
  current = {};
  std::optional<Batch> batch = prefetcher->next();
  if (!batch) {
    end_epoch();
    return false;
  }
  current = std::move(*batch);
  ++position;
  return true;
}

void Loader::State::set_epoch(std::int64_t epoch) {
  sampler.set_epoch(epoch);
  prefetcher.reset();
  current = {};
  is_running = false;
  position = 0;
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, int rank, int ranks,
               LoaderOptions options) {
  dataset = checked(std::move(dataset));
  const std::int64_t global_batch = global_batch_of(options, ranks);
  Sampler sampler(dataset->size(), rank, ranks,
                  sampler_options(options, global_batch));
  SHEAF_CHECK(options.workers >= 0 && options.prefetch >= 1, "a loader with ",
              options.workers, " workers and ", options.prefetch,
              " prefetched batches each; use at least 0 workers and 1 batch");
  state_ = std::make_unique<State>(State{std::move(dataset), std::move(options),
                                         global_batch, std::move(sampler)});
}

Loader::Loader(std::shared_ptr<const Dataset> dataset, const comm::Group& group,
               LoaderOptions options)
    : Loader(std::move(dataset), group.rank(), group.size(),
             std::move(options)) {}

Loader::Loader(Loader&& other) noexcept = default;
Loader& Loader::operator=(Loader&& other) noexcept = default;
Loader::~Loader() = default;

Loader::State& Loader::state() const {
  SHEAF_CHECK(state_,
              "a loader was used after it was moved from; use the "
              "loader that it was moved to");
  return *state_;
}

Loader::Iterator Loader::begin() {
  state().begin();
  return state().advance() ? Iterator(state_.get()) : end();
}

void Loader::set_epoch(std::int64_t epoch) { state().set_epoch(epoch); }

void Loader::start_at(std::int64_t batch) {
  SHEAF_CHECK(batch >= 0 && batch <= batches(),
              "a loader cannot start at batch ", batch, "; the epoch has ",
              batches(), " batches, numbered from 0");
  set_epoch(state().is_running ? epoch() + 1 : epoch());
  state().position = batch;
}

std::int64_t Loader::epoch() const { return state().sampler.epoch(); }
std::int64_t Loader::position() const { return state().position; }
std::int64_t Loader::batches() const { return state().sampler.batches(); }
std::int64_t Loader::global_batch() const { return state().global_batch; }
const Dataset& Loader::dataset() const { return *state().dataset; }

std::vector<std::int64_t> Loader::example_shape() const {
  std::vector<std::int64_t> shape = dataset().example_shape();
  shape.insert(shape.begin(), 0);
  const at::Tensor none = at::empty(shape, at::TensorOptions(at::kByte));
  return transformed(none, state().options, {}, Random())
      .sizes()
      .slice(1)
      .vec();
}

std::string Loader::reading() const {
  const LoaderOptions& options = state().options;
  if (!options.tile) return "whole images";
  const std::string reason =
      reads_whole_for(dataset(), options.transform.get());
  return reason.empty() ? "tiles of " + dataset().source()
                        : "whole images and cuts its tile: " + reason;
}

Batch& Loader::Iterator::operator*() const {
  SHEAF_CHECK(state_, "a loader's epoch has ended; it has no current batch");
  return state_->current;
}

Loader::Iterator& Loader::Iterator::operator++() {
  SHEAF_CHECK(state_, "a loader's epoch has ended; call begin() again");
  if (!state_->advance()) state_ = nullptr;
  return *this;
}

}  // namespace sheaf::data

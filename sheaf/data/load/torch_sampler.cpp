#include "sheaf/data/load/torch_sampler.hpp"

#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <algorithm>

#include "sheaf/base/error.hpp"

namespace sheaf::data {
namespace {

void write_number(torch::serialize::OutputArchive& archive, const char* key,
                  std::int64_t value) {
  archive.write(key, at::full({}, value, at::kLong), /*is_buffer=*/true);
}

std::int64_t read_number(torch::serialize::InputArchive& archive,
                         const char* key) {
  at::Tensor value = at::empty({}, at::kLong);
  archive.read(key, value, /*is_buffer=*/true);
  return value.item<std::int64_t>();
}

}  // namespace

TorchSampler::TorchSampler(std::int64_t size, int rank, int ranks,
                           SamplerOptions options)
    : examples_(size),
      rank_(rank),
      ranks_(ranks),
      options_(options),
      sampler_(size, rank, ranks, std::move(options)) {
  begin(sampler_.epoch());
}

TorchSampler::TorchSampler(std::int64_t size, const comm::Group& group,
                           SamplerOptions options)
    : TorchSampler(size, group.rank(), group.size(), std::move(options)) {}

void TorchSampler::begin(std::int64_t epoch) {
  if (epoch != sampler_.epoch()) sampler_.set_epoch(epoch);
  indices_.clear();
  for (std::int64_t batch = 0; batch < sampler_.batches(); ++batch)
    for (const std::int64_t index : sampler_.share(batch))
      indices_.push_back(static_cast<std::size_t>(index));
  position_ = 0;
  has_ended_ = false;
}

void TorchSampler::set_epoch(std::int64_t epoch) {
  SHEAF_CHECK(epoch >= 0, "rank ", rank_, ": epoch ", epoch,
              "; epochs are numbered from 0");
  next_epoch_ = epoch;
}

std::int64_t TorchSampler::size() const {
  return static_cast<std::int64_t>(indices_.size());
}

void TorchSampler::reset(MaybeSize new_size) {
  const std::int64_t size =
      new_size ? static_cast<std::int64_t>(*new_size) : examples_;
  const bool has_new_size = size != examples_;
  if (has_new_size) {
    data::Sampler sampler(size, rank_, ranks_, options_);
    sampler.set_epoch(sampler_.epoch());
    sampler_ = std::move(sampler);
    examples_ = size;
  }
  if (next_epoch_)
    begin(*next_epoch_);
  else if (!keeps_position_)
    begin(sampler_.epoch() + 1);
  else if (has_new_size)
    begin(sampler_.epoch());
  next_epoch_.reset();
  keeps_position_ = false;
}

MaybeIndices TorchSampler::next(std::size_t batch_size) {
  keeps_position_ = false;
  const std::size_t count = std::min(batch_size, indices_.size() - position_);
  has_ended_ |= position_ == indices_.size();
  if (count == 0) return {};
  const auto first = indices_.begin() + static_cast<std::ptrdiff_t>(position_);
  position_ += count;
  return std::vector<std::size_t>(first,
                                  first + static_cast<std::ptrdiff_t>(count));
}

void TorchSampler::save(torch::serialize::OutputArchive& archive) const {
  const bool is_between = next_epoch_ || has_ended_;
  const std::int64_t following = sampler_.epoch() + (has_ended_ ? 1 : 0);
  write_number(archive, "epoch", next_epoch_.value_or(following));
  write_number(archive, "position",
               is_between ? 0 : static_cast<std::int64_t>(position_));
}

void TorchSampler::load(torch::serialize::InputArchive& archive) {
  const std::int64_t epoch = read_number(archive, "epoch");
  const std::int64_t position = read_number(archive, "position");
  begin(epoch);
  SHEAF_CHECK(position >= 0 && position <= size(), "rank ", rank_,
              ": the stored position is ", position, " of epoch ", epoch,
              ", in which this rank has ", size(), " of ", examples_,
              " examples; load it with the size, ranks and options with which "
              "it was stored");
  position_ = static_cast<std::size_t>(position);
  next_epoch_.reset();
  keeps_position_ = true;
}

}  // namespace sheaf::data

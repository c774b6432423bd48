#include "sheaf/data/load/sampler.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/data/dataset/memory.hpp"
#include "sheaf/data/dataset/random.hpp"

namespace sheaf::data {
namespace {

// A key for the order's random stream, different from the transforms'.
constexpr std::uint64_t kOrderStream = 0x6f72646572;

std::vector<std::int64_t> natural_order(std::int64_t size) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  return order;
}

std::vector<std::int64_t> python_permutation(std::int64_t size,
                                             std::uint64_t seed) {
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::Tensor permutation = at::randperm(size, generator, at::kLong);
  const auto* first = permutation.data_ptr<std::int64_t>();
  return {first, first + size};
}

void check_shares(int rank, int ranks, const SamplerOptions& options) {
  const auto& shares = options.shares;
  if (shares.empty()) return;
  SHEAF_CHECK(shares.size() == static_cast<std::size_t>(ranks), "rank ", rank,
              ": shares for ", shares.size(), " ranks, but there are ", ranks,
              "; give one share for each rank");
  const auto least = *std::min_element(shares.begin(), shares.end());
  const auto all =
      std::accumulate(shares.begin(), shares.end(), std::int64_t{});
  SHEAF_CHECK(least >= 0 && all > 0, "rank ", rank, ": a share of ", least,
              " of ", all,
              "; shares must be at least 0, and one must be above 0");
  SHEAF_CHECK(options.order == Order::kSheaf && !options.sites, "rank ", rank,
              ": shares need Order::kSheaf and no sites");
}

void check(std::int64_t size, int rank, int ranks,
           const SamplerOptions& options) {
  check_shares(rank, ranks, options);
  SHEAF_CHECK(size >= 0, "a sampler of ", size, " examples; use 0 or more");
  SHEAF_CHECK(ranks >= 1 && rank >= 0 && rank < ranks, "rank ", rank, " of ",
              ranks, " ranks; ranks are numbered from 0");
  SHEAF_CHECK(options.global_batch >= 1, "rank ", rank,
              ": the global batch is ", options.global_batch,
              "; it must have at least 1 example");
  SHEAF_CHECK(
      options.order == Order::kSheaf || options.global_batch % ranks == 0,
      "rank ", rank, ": Order::kPython gives all ranks equal shares, but ",
      ranks, " ranks cannot evenly divide a global batch of ",
      options.global_batch, "; use a multiple, or Order::kSheaf");
  if (!options.sites) return;
  SHEAF_CHECK(options.order == Order::kSheaf &&
                  options.sites->size() == static_cast<std::size_t>(size),
              "rank ", rank, ": sites for ", options.sites->size(), " of ",
              size,
              " examples; sites need one entry for each example, and "
              "Order::kSheaf");
  for (const int site : *options.sites)
    SHEAF_CHECK(site >= 0 && site < ranks, "rank ", rank,
                ": an example belongs to rank ", site, " of ", ranks);
}

}  // namespace

// Fisher-Yates shuffle, from the end.
std::vector<std::int64_t> epoch_order(std::int64_t size, std::uint64_t seed,
                                      std::int64_t epoch) {
  Random random = Random(seed)
                      .derive(kOrderStream)
                      .derive(static_cast<std::uint64_t>(epoch));
  std::vector<std::int64_t> order = natural_order(size);
  for (std::size_t left = order.size(); left > 1; --left)
    std::swap(order[left - 1], order[random.below(left)]);
  return order;
}

Sampler::Sampler(std::int64_t size, int rank, int ranks, SamplerOptions options)
    : size_(size), rank_(rank), ranks_(ranks), options_(options) {
  check(size, rank, ranks, options);
  set_epoch(options.epoch);
}

void Sampler::set_epoch(std::int64_t epoch) {
  SHEAF_CHECK(epoch >= 0, "epoch ", epoch, "; epochs are numbered from 0");
  options_.epoch = epoch;
  const double bytes = static_cast<double>(size_) * sizeof(size_);
  with_memory(
      bytes,
      [&] {
        return concat("the order of ", size_, " examples needs ", bytes / 1e9,
                      " GB, more memory than this host has; use fewer "
                      "examples");
      },
      [this] { make_order(); });
}

void Sampler::make_order() {
  const auto epoch = static_cast<std::uint64_t>(options_.epoch);
  if (!options_.shuffle)
    order_ = natural_order(size_);
  else if (options_.order == Order::kPython)
    order_ = python_permutation(size_, options_.seed + epoch);
  else
    order_ = epoch_order(size_, options_.seed, options_.epoch);
  if (options_.order == Order::kSheaf || size_ == 0) return;
  const auto wanted = static_cast<std::size_t>(total());
  order_.reserve(wanted);
  while (order_.size() < wanted)
    order_.push_back(order_[order_.size() - static_cast<std::size_t>(size_)]);
  order_.resize(wanted);
}

std::int64_t Sampler::total() const {
  if (options_.order == Order::kSheaf || size_ % ranks_ == 0) return size_;
  const std::int64_t whole = size_ / ranks_;
  return (options_.drop_last ? whole : whole + 1) * ranks_;
}

std::int64_t Sampler::batches() const {
  const std::int64_t full = total() / options_.global_batch;
  const bool has_rest = total() % options_.global_batch != 0;
  return full + (has_rest && !options_.drop_last ? 1 : 0);
}

Sampler::Range Sampler::global_range(std::int64_t batch) const {
  SHEAF_CHECK(batch >= 0 && batch < batches(), "rank ", rank_, ": batch ",
              batch, " is out of range; the epoch has ", batches(),
              " batches, numbered from 0");
  const std::int64_t begin = batch * options_.global_batch;
  return {begin, std::min(begin + options_.global_batch, total())};
}

Sampler::Range Sampler::share_range(std::int64_t batch) const {
  const Range range = global_range(batch);
  const std::int64_t count = range.end - range.begin;
  if (!options_.shares.empty()) {
    const auto first = options_.shares.begin();
    const auto up_to = [&](std::ptrdiff_t rank) {
      return std::accumulate(first, first + rank, std::int64_t{0});
    };
    const std::int64_t all = up_to(ranks_);
    return {range.begin + count * up_to(rank_) / all,
            range.begin + count * up_to(rank_ + 1) / all};
  }
  const std::int64_t all = takers(count);
  if (rank_ >= all) return {range.end, range.end};
  const std::int64_t least = count / all;
  const std::int64_t larger = count % all;  // the first ranks have one more
  const std::int64_t begin =
      range.begin + rank_ * least + std::min<std::int64_t>(rank_, larger);
  return {begin, begin + least + (rank_ < larger ? 1 : 0)};
}

std::int64_t Sampler::takers(std::int64_t count) const {
  if (!options_.avoids_single_rows) return ranks_;
  return std::clamp<std::int64_t>(count / 2, 1, ranks_);
}

std::vector<std::int64_t> Sampler::share(std::int64_t batch) const {
  std::vector<std::int64_t> indices;
  if (options_.order == Order::kPython) {
    const Range range = global_range(batch);
    for (std::int64_t at = range.begin + rank_; at < range.end; at += ranks_)
      indices.push_back(order_[static_cast<std::size_t>(at)]);
    return indices;
  }
  if (options_.sites) {
    const Range range = global_range(batch);
    for (std::int64_t at = range.begin; at < range.end; ++at) {
      const std::int64_t example = order_[static_cast<std::size_t>(at)];
      if ((*options_.sites)[static_cast<std::size_t>(example)] == rank_)
        indices.push_back(example);
    }
    return indices;
  }
  const Range range = share_range(batch);
  indices.assign(order_.begin() + range.begin, order_.begin() + range.end);
  return indices;
}

std::int64_t Sampler::first_index(std::int64_t batch) const {
  if (options_.order == Order::kPython)
    return global_range(batch).begin + rank_;
  if (!options_.sites) return share_range(batch).begin;
  const Range range = global_range(batch);
  const auto is_mine = [this](std::int64_t example) {
    return (*options_.sites)[static_cast<std::size_t>(example)] == rank_;
  };
  return std::find_if(order_.begin() + range.begin, order_.begin() + range.end,
                      is_mine) -
         order_.begin();
}

std::int64_t Sampler::global_size(std::int64_t batch) const {
  const Range range = global_range(batch);
  return range.end - range.begin;
}

}  // namespace sheaf::data

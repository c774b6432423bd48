#include "sheaf/parallel/data/bucket_layout.hpp"

#include <numeric>
#include <utility>

#include "sheaf/tensor/groups/nccl.hpp"

namespace sheaf::parallel {
BucketLayout::BucketLayout(const std::vector<TrainedParameter>& parameters,
                           const comm::Group& group,
                           const BucketLayoutOptions& options)
    : parameters_(parameters),
      group_(group),
      options_(options),
      placements_(find_placements()),
      places_(parameters.size()) {
  // Gradients arrive in approximately the reverse order of the layers.
  std::vector<std::size_t> order(parameters_.size());
  std::iota(order.rbegin(), order.rend(), std::size_t{0});
  make_buckets(order);
}

std::vector<Placement> BucketLayout::find_placements() const {
  std::vector<PlacementCode> mine;
  for (const auto& parameter : parameters_)
    mine.push_back(
        options_.is_staged ? 1 : placement_code(parameter.tensor.device()));
  return agree_on_placements(group_, mine);
}

bool BucketLayout::is_on_host(std::size_t index) const {
  return parameters_[index].tensor.device().is_cpu() && !options_.is_staged;
}

// Whether the parameter has a separate bucket, so that a rank on the CPU can
// exchange it in place.
bool BucketLayout::goes_alone(std::size_t index) const {
  const auto& [name, tensor, is_sparse] = parameters_[index];
  return is_sparse ||
         plan::goes_alone(tensor.nbytes(), placements_[index].is_device,
                          options_.takes_outside);
}

bool BucketLayout::is_exchanged_in_place(std::size_t index) const {
  return goes_alone(index) &&
         (parameters_[index].is_sparse || is_on_host(index));
}

std::vector<std::size_t> BucketLayout::sizes_in_place() const {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (!parameters_[i].is_sparse && is_exchanged_in_place(i))
      sizes.push_back(parameters_[i].tensor.nbytes());
  return sizes;
}

void BucketLayout::make_buckets(const std::vector<std::size_t>& order) {
  std::vector<plan::BucketItem> items;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    items.push_back({parameters_[i].tensor.nbytes(),
                     static_cast<int>(parameters_[i].tensor.scalar_type()),
                     placements_[i].number, goes_alone(i)});
  const auto lists = plan::plan_buckets(items, order, options_.caps);
  for (const auto& members : lists) {
    std::vector<BucketMember> list;
    for (const std::size_t index : members) {
      places_[index] = {buckets_.size(), list.size()};
      list.push_back(
          {parameters_[index].tensor, index, is_exchanged_in_place(index)});
    }
    const bool is_last = buckets_.size() + 1 == lists.size();
    buckets_.push_back(std::make_unique<Bucket>(
        group_, std::move(list), options_for(members[0], is_last)));
  }
}

BucketOptions BucketLayout::options_for(std::size_t first_member,
                                        bool is_last) const {
  BucketOptions options{.is_staged = options_.is_staged};
  // NCCL needs all ranks on GPUs.
  options.uses_nccl = options_.takes_outside &&
                      placements_[first_member].is_device &&
                      tensor::nccl::is_enabled(group_);
  if (is_last)
    options.status =
        plan::status_place(goes_alone(first_member), options_.keeps_zeros,
                           options.uses_nccl, group_.host_count());
  return options;
}

void BucketLayout::rebuild(const std::vector<std::size_t>& order) {
  is_rebuilt_ = true;
  std::vector<bool> is_moved(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& current = parameters_[i].tensor.grad();
    is_moved[i] = current.defined() && current.is_same(gradient(i));
  }
  const auto old = std::exchange(buckets_, {});
  make_buckets(order);
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_moved[i]) continue;
    at::Tensor& current = parameters_[i].tensor.mutable_grad();
    put(i, current, /*owns_memory=*/true);
    current = gradient(i);
  }
  clear();
}

std::vector<std::size_t> BucketLayout::bucket_numbers() const {
  std::vector<std::size_t> numbers;
  for (const Place& place : places_) numbers.push_back(place.bucket);
  return numbers;
}

Bucket* BucketLayout::status_bucket() const {
  return !buckets_.empty() && buckets_.back()->has_status()
             ? buckets_.back().get()
             : nullptr;
}

void BucketLayout::release_kept() {
  for (const auto& bucket : buckets_) bucket->release_kept();
}

void BucketLayout::put(std::size_t parameter, const at::Tensor& gradient,
                       bool owns_memory) {
  const auto [bucket, member] = places_[parameter];
  buckets_[bucket]->put(member, gradient, owns_memory);
}

void BucketLayout::put_nothing(std::size_t parameter,
                               const at::Tensor& earlier) {
  const auto [bucket, member] = places_[parameter];
  buckets_[bucket]->put_nothing(member, earlier);
}

const at::Tensor& BucketLayout::gradient(std::size_t parameter) const {
  const auto [bucket, member] = places_[parameter];
  return buckets_[bucket]->gradient(member);
}

void BucketLayout::clear() {
  for (const auto& bucket : buckets_) bucket->clear();
}

}  // namespace sheaf::parallel

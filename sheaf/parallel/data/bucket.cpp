#include "sheaf/parallel/data/bucket.hpp"

#include <algorithm>

#include "sheaf/parallel/common/staging.hpp"
#include "sheaf/plan/format/bucket_rules.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::parallel {
namespace {

at::Tensor view_like(const at::Tensor& block, std::int64_t at,
                     const at::Tensor& parameter) {
  const at::Tensor flat = block.narrow(0, at, parameter.numel());
  if (parameter.is_non_overlapping_and_dense())
    return flat.as_strided(parameter.sizes(), parameter.strides());
  return flat.view(parameter.sizes());
}

// Returns the gradient in the memory order of the parameter, which is the same
// on all ranks.
at::Tensor in_order(const at::Tensor& gradient, const at::Tensor& parameter,
                    bool owns_memory = true) {
  const bool is_dense = parameter.is_non_overlapping_and_dense();
  const bool has_order = is_dense ? gradient.strides() == parameter.strides()
                                  : gradient.is_contiguous();
  if (owns_memory && has_order) return gradient;
  return (is_dense ? at::empty_like(parameter)
                   : at::empty(parameter.sizes(), parameter.options()))
      .copy_(gradient);
}

}  // namespace

Bucket::Bucket(const comm::Group& group, std::vector<BucketMember> members,
               const BucketOptions& options)
    : group_(group), options_(options), members_(std::move(members)) {
  gradients_.resize(members_.size());
  allocate();
}

Bucket::~Bucket() = default;

void Bucket::allocate() {
  // A block may have no elements, if its parameters have none.
  const auto is_alone = [](const auto& one) { return one.is_exchanged_alone; };
  if (std::all_of(members_.begin(), members_.end(), is_alone)) return;
  const at::Tensor& first = members_[0].parameter;
  std::vector<std::int64_t> sizes;
  for (const BucketMember& member : members_)
    if (!member.is_exchanged_alone) sizes.push_back(member.parameter.numel());
  const auto block = plan::lay_out_block(sizes, options_.status);
  status_at_ = block.status_at;
  shared_ = tensor::empty_shared(group_, {block.elements}, first.scalar_type());
  shared_.zero_();
  block_ = shared_;
  if (options_.is_staged || !first.device().is_cpu()) {
    block_ = shared_.to(first.device(), shared_.scalar_type(),
                        /*non_blocking=*/false, /*copy=*/true);
    staging_ = std::make_unique<Staging>(block_, shared_);
  }
  // Below autograd the parts are independent tensors: autograd does not allow
  // views to be detached in place, which optimizers do.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::int64_t at = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].is_exchanged_alone) continue;
    gradients_[i] = view_like(block_, at, members_[i].parameter);
    at += plan::aligned_elements(members_[i].parameter.numel());
  }
}

bool Bucket::is_kept() const {
  std::size_t views = 0;
  bool was_reset = false;
  for (std::size_t i = 0; i < size(); ++i) {
    if (members_[i].is_exchanged_alone) continue;
    ++views;
    if (members_[i].parameter.grad().is_same(gradients_[i])) continue;
    was_reset = true;
    if (gradients_[i].use_count() > 1) return true;
  }
  // Other tensors may share the block's memory; backward() adds to this memory
  // where parameters still have their gradients.
  return was_reset && block_.storage().use_count() > 1 + views;
}

void Bucket::release_kept() {
  if (block_.defined() && is_kept()) allocate();
}

const at::Tensor& Bucket::put(std::size_t member, const at::Tensor& gradient,
                              bool owns_memory) {
  const at::NoGradGuard no_grad;
  at::Tensor& place = gradients_[member];
  if (members_[member].is_exchanged_alone)
    place = in_order(gradient, members_[member].parameter, owns_memory);
  else if (gradient.data_ptr() != place.data_ptr())
    place.copy_(gradient);
  return place;
}

void Bucket::put_nothing(std::size_t member, const at::Tensor& earlier) {
  const at::NoGradGuard no_grad;
  at::Tensor& place = gradients_[member];
  const at::Tensor& parameter = members_[member].parameter;
  if (members_[member].is_exchanged_alone)
    place = in_order(at::empty_like(parameter), parameter);
  if (earlier.defined())
    place.copy_(earlier);
  else
    place.zero_();
}

void Bucket::clear() {
  for (std::size_t i = 0; i < size(); ++i)
    if (members_[i].is_exchanged_alone) gradients_[i].reset();
}

void Bucket::write_status(bool is_set) {
  const at::NoGradGuard no_grad;
  if (status_at_) shared_[*status_at_].fill_(is_set ? 1 : 0);
}

bool Bucket::is_status_set() const {
  return shared_[*status_at_].item<double>() != 0;
}

std::vector<at::Tensor> Bucket::outside() const {
  std::vector<at::Tensor> rows;
  for (std::size_t i = 0; i < size(); ++i)
    if (members_[i].is_exchanged_alone)
      rows.push_back(gradients_[i].as_strided({gradients_[i].numel()}, {1}));
  return rows;
}

std::int64_t Bucket::bytes() const {
  std::int64_t bytes =
      block_.defined() ? static_cast<std::int64_t>(block_.nbytes()) : 0;
  for (const BucketMember& member : members_)
    if (member.is_exchanged_alone)
      bytes += static_cast<std::int64_t>(member.parameter.nbytes());
  return bytes;
}

}  // namespace sheaf::parallel

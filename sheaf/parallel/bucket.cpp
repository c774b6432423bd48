#include "sheaf/parallel/bucket.hpp"

#include "sheaf/tensor/memory.hpp"

namespace sheaf::parallel {
namespace {

constexpr std::int64_t kAlign = 16;  // elements: a cache line of floats

std::int64_t aligned(std::int64_t elements) {
  return (elements + kAlign - 1) / kAlign * kAlign;
}

at::Tensor view_like(const at::Tensor& block, std::int64_t at,
                     const at::Tensor& parameter) {
  const at::Tensor flat = block.narrow(0, at, parameter.numel());
  if (parameter.is_non_overlapping_and_dense())
    return flat.as_strided(parameter.sizes(), parameter.strides());
  return flat.view(parameter.sizes());
}

}  // namespace

Bucket::Bucket(const comm::Group& group, std::vector<BucketMember> members)
    : members_(std::move(members)) {
  for (const BucketMember& member : members_)
    elements_ += aligned(member.parameter.numel());
  const at::Tensor& first = members_[0].parameter;
  const auto flags = static_cast<std::int64_t>(members_.size());
  shared_ =
      tensor::empty_shared(group, {elements_ + flags}, first.scalar_type());
  shared_.zero_();
  block_ = first.device().is_cpu() ? shared_ : shared_.to(first.device());
  // To autograd they are tensors of their own: it lets nobody detach views,
  // which optimisers do.
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::int64_t at = 0;
  for (const BucketMember& member : members_) {
    views_.push_back(view_like(block_, at, member.parameter));
    at += aligned(member.parameter.numel());
  }
}

at::Tensor Bucket::flag(std::size_t member) const {
  return block_.narrow(0, elements_ + static_cast<std::int64_t>(member), 1);
}

void Bucket::set_used(std::size_t member, bool is_used) {
  flag(member).fill_(is_used ? 1 : 0);
}

double Bucket::share_used(std::size_t member) const {
  return shared_.narrow(0, elements_ + static_cast<std::int64_t>(member), 1)
      .item<double>();
}

}  // namespace sheaf::parallel

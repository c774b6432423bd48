#include "sheaf/parallel/data/bucket_averager.hpp"

#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/parallel/common/staging.hpp"
#include "sheaf/parallel/data/sparse.hpp"

namespace sheaf::parallel {

BucketAverager::BucketAverager(const comm::Group& group,
                               std::shared_ptr<BucketExchange> exchange,
                               TraceWriter* trace)
    : group_(group),
      exchange_(std::move(exchange)),
      claim_(*exchange_),
      trace_(trace),
      divisor_(group.size()) {
  exchange_->reset();
}

void BucketAverager::average(std::size_t number, Bucket& bucket, bool is_sparse,
                             const Part& mine) {
  const Stopwatch watch;
  bucket.set_name(concat("bucket ", number, " of pass ", pass_));
  const TraceSpan span(trace_, concat("bucket ", number), "exchange", 1);
  const at::NoGradGuard no_grad;
  if (is_sparse)
    average_sparse(bucket, mine.is_used);
  else if (bucket.uses_nccl() && bucket.block().is_cuda())
    average_by_nccl(bucket);
  else
    average_on_host(bucket, mine.is_status_set);
  stats_.exchange_ms += watch.ms();
  ++stats_.buckets;
}

void BucketAverager::average_on_host(Bucket& bucket, bool is_status_set) {
  if (bucket.staging()) bucket.staging()->to_host();
  bucket.write_status(is_status_set);
  stats_.bytes += exchange_->average(group_, bucket, divisor_);
  if (bucket.staging()) bucket.staging()->to_device();
}

void BucketAverager::average_by_nccl(const Bucket& bucket) {
  bucket.staging()->wait_on_device();
  average_over(group_, bucket.block(), divisor_, bucket.name());
  stats_.bytes += bucket.bytes();
}

void BucketAverager::average_sparse(const Bucket& bucket, bool is_used) {
  const at::Tensor& parameter = bucket.members()[0].parameter;
  at::Tensor& gradient = parameter.mutable_grad();
  const auto average =
      average_sparse_gradient(group_, gradient, is_used, parameter, divisor_);
  stats_.bytes += average.bytes;
  if (average.users > 0) gradient = average.gradient;
}

}  // namespace sheaf::parallel

#pragma once
// Averages the gradients of a bucket over a group: by a BucketExchange, through
// staging memory if they are on a device, by NCCL, or as sparse rows.

#include <cstdint>
#include <memory>

#include "sheaf/base/trace.hpp"
#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"

namespace sheaf::parallel {

// average() may be called by another thread than the other functions, but not
// at the same time as those that change the state of the pass.
class BucketAverager {
 public:
  // Claims the exchange, which must not be null. `trace` may be null.
  BucketAverager(const comm::Group& group,
                 std::shared_ptr<BucketExchange> exchange, TraceWriter* trace);

  const comm::Group& group() const { return group_; }
  // The divisor of the ranks' sum.
  int divisor() const { return divisor_; }
  void set_divisor(int divisor) { divisor_ = divisor; }

  // Part of the message names, so that ranks in different passes cannot
  // exchange gradients with each other. A discarded pass gives its number to
  // the next one, so that ranks whose backward() threw at different points
  // agree on it.
  std::int64_t pass() const { return pass_; }
  void set_pass(std::int64_t pass) { pass_ = pass; }

  // This rank's part in the exchange of a bucket.
  struct Part {
    bool is_used = true;         // for sparse gradients
    bool is_status_set = false;  // see Bucket::write_status()
  };
  // All ranks must call it, in the same order. The members' gradients of a
  // sparse bucket are those of the parameters.
  void average(std::size_t number, Bucket& bucket, bool is_sparse,
               const Part& mine);

  const ExchangeStats& stats() const { return stats_; }
  ExchangeStats& stats() { return stats_; }

 private:
  void average_on_host(Bucket& bucket, bool is_status_set);
  void average_by_nccl(const Bucket& bucket);
  void average_sparse(const Bucket& bucket, bool is_used);

  comm::Group group_;
  std::shared_ptr<BucketExchange> exchange_;
  ExchangeClaim claim_;
  TraceWriter* trace_;
  int divisor_;
  std::int64_t pass_ = 1;
  ExchangeStats stats_;
};

}  // namespace sheaf::parallel

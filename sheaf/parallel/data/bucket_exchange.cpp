#include "sheaf/parallel/data/bucket_exchange.hpp"

#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/format/bucket_rules.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::parallel {
namespace {

using comm::ReduceOp;

const std::string kCommon = "common/";
const std::string kOwn = "own/";

class PlainExchange : public BucketExchange {
 public:
  bool takes_outside() const override { return true; }
  bool keeps_zeros() const override { return true; }
  std::int64_t average(const comm::Group& group, Bucket& bucket,
                       int divisor) override {
    for (const at::Tensor& gradient : bucket.outside())
      average_over(group, gradient, divisor, bucket.name());
    if (bucket.shared().defined())
      average_over(group, bucket.shared(), divisor, bucket.name());
    return bucket.bytes();
  }
};

class HalfExchange : public BucketExchange {
 public:
  explicit HalfExchange(at::ScalarType type) : type_(type) {}
  // 1 / ranks is not rounded to 0 in 16 bits.
  bool keeps_zeros() const override { return true; }

  std::int64_t average(const comm::Group& group, Bucket& bucket,
                       int divisor) override {
    at::Tensor& wire = wires_[&bucket];
    if (!wire.defined())
      wire = tensor::empty_shared(group, bucket.shared().sizes(), type_);
    wire.copy_(bucket.shared());
    average_over(group, wire, divisor, bucket.name());
    bucket.shared().copy_(wire);
    return plan::half_exchange_bytes(wire.numel(), group.host_count());
  }
  void reset() override { wires_.clear(); }

 private:
  at::ScalarType type_;
  std::map<const Bucket*, at::Tensor> wires_;
};

}  // namespace

ExchangeState::Named gather_exchange_state(const comm::Group& group,
                                           const BucketExchange* exchange) {
  ExchangeState::Named list;
  if (!exchange) return list;
  const ExchangeState mine = exchange->state();
  for (const auto& [name, tensor] : mine.common)
    list.emplace_back(kCommon + name, tensor);
  for (const auto& [name, tensor] : mine.own) {
    std::vector<at::Tensor> rows;
    if (group.rank() == 0)
      for (int i = 0; i < group.size(); ++i)
        rows.push_back(at::empty_like(tensor));
    tensor::gather(group, tensor, rows).wait();
    if (group.rank() == 0) list.emplace_back(kOwn + name, at::stack(rows));
  }
  return list;
}

void load_exchange_state(const comm::Group& group, BucketExchange* exchange,
                         const ExchangeState::Named& saved) {
  ExchangeState state;
  for (const auto& [name, tensor] : saved) {
    if (name.starts_with(kCommon))
      state.common.emplace_back(name.substr(kCommon.size()), tensor);
    if (name.starts_with(kOwn))
      state.own.emplace_back(name.substr(kOwn.size()),
                             tensor.size(0) == group.size()
                                 ? tensor[group.rank()]
                                 : tensor.mean(0));
  }
  if (exchange && !state.common.empty()) exchange->load(state);
}

void average_over(const comm::Group& group, const at::Tensor& data, int divisor,
                  const std::string& name) {
  const bool is_whole = divisor == group.size();
  const bool is_narrow = data.element_size() < 4;
  tensor::all_reduce(
      group, data,
      {.op = is_whole || is_narrow ? ReduceOp::kAvg : ReduceOp::kSum,
       .name = name})
      .wait();
  if (is_whole) return;
  if (is_narrow)
    data.mul_(static_cast<double>(group.size()) / divisor);
  else
    data.div_(divisor);
}

ExchangeClaim::ExchangeClaim(BucketExchange& exchange) : exchange_(exchange) {
  SHEAF_CHECK(!exchange_.is_claimed_.exchange(true),
              "this exchange is in use by another model; create one for each "
              "model");
}

std::unique_ptr<BucketExchange> make_plain_exchange() {
  return std::make_unique<PlainExchange>();
}

std::unique_ptr<BucketExchange> make_half_exchange(at::ScalarType type) {
  return std::make_unique<HalfExchange>(type);
}

}  // namespace sheaf::parallel

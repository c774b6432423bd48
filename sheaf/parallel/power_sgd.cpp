// PowerSGD. A gradient matrix M (n x m) is sent as P (n x r) and Q (m x r):
//   M += what was lost last time
//   P = M Q, averaged over ranks, its columns made orthonormal
//   Q = M' P, averaged over ranks
//   the average is taken to be P Q'; M - P Q' is kept for the next step
// Q is the start of the next step, so that steps act as a power iteration.
// Bytes per rank: r (n + m) elements for n m. All matrices of a bucket share
// two messages; vectors travel with the first, as they are.
//
// Q and what was lost outlive the buckets: they are remembered by parameter
// when buckets are made anew, and put into checkpoints.

#include <map>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/collectives.hpp"
#include "sheaf/parallel/exchange.hpp"
#include "sheaf/tensor/memory.hpp"

namespace sheaf::parallel {
namespace {

// A piece of shared memory from which tensors are cut.
class Block {
 public:
  Block() = default;
  Block(const comm::Group& group, std::int64_t elements, at::ScalarType type)
      : memory_(tensor::empty_shared(group, {elements}, type)) {}
  at::Tensor cut(at::IntArrayRef sizes) {
    const std::int64_t count = c10::multiply_integers(sizes);
    at::Tensor part = memory_.narrow(0, used_, count).view(sizes);
    used_ += count;
    return part;
  }
  std::int64_t average(const comm::Group& group, int divisor) const {
    comm::all_reduce(group, tensor::buffer_of(memory_)).wait();
    memory_.div_(divisor);
    return static_cast<std::int64_t>(memory_.nbytes());
  }

 private:
  at::Tensor memory_;
  std::int64_t used_ = 0;
};

struct Matrix {
  std::size_t member = 0;
  std::size_t index = 0;  // of the parameter
  at::Tensor p, q, error;
};

// Of a parameter, between two layouts.
struct Memory {
  at::Tensor q, error;
};

struct Plain {
  at::Tensor from;  // in the bucket
  at::Tensor wire;
};

struct Layout {
  std::vector<Matrix> matrices;
  std::vector<Plain> plain;
  Block first;   // P and what travels as it is
  Block second;  // Q
};

// In the bucket's shared memory, which may stand for one on a device.
at::Tensor shared_view(const Bucket& bucket, std::size_t member) {
  const at::Tensor& view = bucket.gradient(member);
  return bucket.shared().as_strided(view.sizes(), view.strides(),
                                    view.storage_offset());
}

// The member's memory as a matrix; any order of the other axes will do.
at::Tensor as_matrix(const Bucket& bucket, std::size_t member) {
  const at::Tensor& view = bucket.gradient(member);
  return bucket.shared()
      .narrow(0, view.storage_offset(), view.numel())
      .view({view.size(0), -1});
}

class PowerSgd : public BucketExchange {
 public:
  explicit PowerSgd(const PowerSgdOptions& options)
      : options_(options), plain_(make_plain_exchange()) {}

  std::int64_t average(const comm::Group& group, Bucket& bucket,
                       int divisor) override {
    Layout& layout = layouts_[&bucket];
    if (steps_before_ + steps_[&bucket]++ < options_.start_step)
      return plain_->average(group, bucket, divisor);
    if (layout.matrices.empty() && layout.plain.empty())
      layout = make_layout(group, bucket);
    for (Matrix& matrix : layout.matrices) project(bucket, matrix);
    for (Plain& plain : layout.plain) plain.wire.copy_(plain.from);
    std::int64_t bytes = layout.first.average(group, divisor);
    for (Plain& plain : layout.plain) plain.from.copy_(plain.wire);
    for (Matrix& matrix : layout.matrices) {
      orthonormalise(matrix.p);
      matrix.q.copy_(as_matrix(bucket, matrix.member).t().mm(matrix.p));
    }
    bytes += layout.second.average(group, divisor);
    for (Matrix& matrix : layout.matrices) restore(bucket, matrix);
    return bytes;
  }

  void reset() override {
    memories_ = remember();
    steps_before_ = steps();
    layouts_.clear();
    steps_.clear();
  }

  ExchangeState state() const override {
    ExchangeState state;
    state.common.emplace_back("steps", torch::tensor(steps()));
    for (const auto& [index, memory] : remember()) {
      state.common.emplace_back(concat("q/", index), memory.q);
      state.own.emplace_back(concat("error/", index), memory.error);
    }
    return state;
  }

  void load(const ExchangeState& state) override {
    reset();
    memories_.clear();
    steps_before_ = state.common.at(0).second.item<int>();
    for (std::size_t i = 0; i < state.own.size(); ++i) {
      const std::string& name = state.own[i].first;
      memories_[std::stoul(name.substr(name.find('/') + 1))] = {
          state.common.at(i + 1).second, state.own[i].second};
    }
  }

 private:
  // Copies, for Q lies in memory that goes with its layout.
  std::map<std::size_t, Memory> remember() const {
    std::map<std::size_t, Memory> memories = memories_;
    for (const auto& [bucket, layout] : layouts_)
      for (const Matrix& matrix : layout.matrices)
        memories[matrix.index] = {matrix.q.clone(), matrix.error.clone()};
    return memories;
  }

  // Passes so far; a bucket takes part in each.
  int steps() const {
    return steps_before_ + (steps_.empty() ? 0 : steps_.begin()->second);
  }

  bool is_worth_it(const at::Tensor& view) const {
    if (view.dim() < 2) return false;
    const std::int64_t n = view.size(0);
    const std::int64_t m = view.numel() / std::max<std::int64_t>(n, 1);
    return options_.rank * (n + m) * 2 < n * m;
  }

  Layout make_layout(const comm::Group& group, const Bucket& bucket) const {
    std::int64_t first = 0;
    std::int64_t second = 0;
    for (std::size_t i = 0; i < bucket.size(); ++i) {
      const at::Tensor& view = bucket.gradient(i);
      const bool is_matrix = is_worth_it(view);
      first += is_matrix ? options_.rank * view.size(0) : view.numel();
      if (is_matrix) second += options_.rank * view.numel() / view.size(0);
    }
    const auto type = bucket.shared().scalar_type();
    Layout layout{{},
                  {},
                  Block(group, first, type),
                  Block(group, std::max<std::int64_t>(second, 1), type)};
    for (std::size_t i = 0; i < bucket.size(); ++i)
      if (is_worth_it(bucket.gradient(i)))
        layout.matrices.push_back(make_matrix(bucket, i, layout));
      else
        layout.plain.push_back(make_plain(shared_view(bucket, i), layout));
    return layout;
  }

  Matrix make_matrix(const Bucket& bucket, std::size_t member,
                     Layout& layout) const {
    const at::Tensor m = as_matrix(bucket, member);
    const std::size_t index = bucket.members()[member].index;
    Matrix matrix{member, index, layout.first.cut({m.size(0), options_.rank}),
                  layout.second.cut({m.size(1), options_.rank}),
                  at::zeros_like(m)};
    if (const auto found = memories_.find(index); found != memories_.end()) {
      matrix.q.copy_(found->second.q);
      matrix.error.copy_(found->second.error);
      return matrix;
    }
    // The same start on all ranks.
    auto generator = at::detail::createCPUGenerator(options_.seed + index);
    matrix.q.copy_(at::randn(matrix.q.sizes(), generator, m.options()));
    return matrix;
  }

  static Plain make_plain(const at::Tensor& from, Layout& layout) {
    return {from, layout.first.cut(from.sizes())};
  }

  void project(const Bucket& bucket, Matrix& matrix) const {
    at::Tensor m = as_matrix(bucket, matrix.member);
    if (options_.error_feedback) m.add_(matrix.error);
    matrix.p.copy_(m.mm(matrix.q));
  }

  static void orthonormalise(at::Tensor& p) {
    p.copy_(std::get<0>(at::linalg_qr(p.to(at::kDouble))));
  }

  void restore(const Bucket& bucket, Matrix& matrix) const {
    at::Tensor m = as_matrix(bucket, matrix.member);
    const at::Tensor average = matrix.p.mm(matrix.q.t());
    if (options_.error_feedback) at::sub_out(matrix.error, m, average);
    m.copy_(average);
  }

  PowerSgdOptions options_;
  std::unique_ptr<BucketExchange> plain_;
  std::map<const Bucket*, Layout> layouts_;
  std::map<const Bucket*, int> steps_;
  std::map<std::size_t, Memory> memories_;  // of earlier layouts
  int steps_before_ = 0;                    // with earlier buckets
};

}  // namespace

std::unique_ptr<BucketExchange> make_power_sgd_exchange(
    const PowerSgdOptions& options) {
  return std::make_unique<PowerSgd>(options);
}

}  // namespace sheaf::parallel

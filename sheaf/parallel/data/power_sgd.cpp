// PowerSGD. A gradient matrix M (n x m) is sent as P (n x r) and Q (m x r):
//   M += what was lost last time
//   P = M Q, averaged over ranks, its columns made orthonormal
//   Q = M' P, averaged over ranks
//   the average is taken to be P Q'; M - P Q' is kept for the next step
// Q, made orthonormal, is the start of the next step, so that steps act as a
// power iteration. Bytes per rank: r (n + m) elements for n m. All matrices of
// a bucket share two messages; vectors travel with the first, as they are.
//
// What ranks compute from the averages, they compute with the same bits:
// portable_product.hpp.
//
// Numbers that are not finite show in the averages of P and Q, the same on all
// ranks. Then the bucket's gradients are averaged as they are, so that everyone
// sees what an ordinary average would show, and the bucket keeps its state. If
// that average is not finite either, nobody can take the step, and at the next
// one all buckets go back to the state before it: hence two of each.
//
// Q and what was lost outlive the buckets: they are remembered by parameter
// when buckets are made anew, and put into checkpoints.

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/parallel/matrix/portable_product.hpp"
#include "sheaf/tensor/groups/memory.hpp"

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
  bool is_finite() const { return at::isfinite(memory_).all().item<bool>(); }

 private:
  at::Tensor memory_;
  std::int64_t used_ = 0;
};

// Of a parameter; what steps begin with.
struct Memory {
  at::Tensor q, error;
};

struct Matrix {
  std::size_t member = 0;
  std::size_t index = 0;  // of the parameter
  at::Tensor p, q;        // on the wire
  Memory memory;
  Memory before;  // the memory before `step`
  int step = -1;

  // To the memory before `step`.
  void go_back() {
    std::swap(memory, before);
    step = -1;
  }
  // The memory, where the last step of that number could not be taken.
  const Memory& memory_without(int bad_step) const {
    return step == bad_step && step >= 0 ? before : memory;
  }
};

struct Plain {
  std::size_t member = 0;
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

// Of 16 bits, not all products exist on the CPU.
at::Tensor wide(const at::Tensor& tensor) {
  return tensor.element_size() < 4 ? tensor.to(at::kFloat) : tensor;
}

double largest_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return std::numeric_limits<at::Half>::max();
    case at::kDouble:
      return std::numeric_limits<double>::max();
    default:  // bf16 has nearly the same
      return std::numeric_limits<float>::max();
  }
}

void orthonormalize(const at::Tensor& matrix) {
  const at::Tensor columns = matrix.to(at::kDouble).contiguous().clone();
  orthonormalize_columns(columns);
  matrix.copy_(columns);
}

class PowerSgd : public BucketExchange {
 public:
  explicit PowerSgd(const PowerSgdOptions& options)
      : options_(options), plain_(make_plain_exchange()) {}

  std::int64_t average(const comm::Group& group, Bucket& bucket,
                       int divisor) override {
    Layout& layout = layouts_[&bucket];
    if (step_ < options_.start_step)
      return average_plainly(group, bucket, divisor);
    if (layout.matrices.empty() && layout.plain.empty())
      layout = make_layout(group, bucket);
    std::int64_t bytes = 0;
    if (!find_factors(group, bucket, divisor, layout, bytes))
      return bytes + average_plainly(group, bucket, divisor);
    for (const Plain& plain : layout.plain)
      shared_view(bucket, plain.member).copy_(plain.wire);
    for (Matrix& matrix : layout.matrices) restore(bucket, matrix);
    return bytes;
  }

  void begin_pass() override { ++step_; }

  void discard_pass() override {
    for (auto& [bucket, layout] : layouts_)
      for (Matrix& matrix : layout.matrices)
        if (matrix.step == step_) matrix.go_back();
    if (bad_step_ == step_) bad_step_ = -1;
    --step_;
  }

  void reset() override {
    memories_ = remember();
    layouts_.clear();
    bad_step_ = -1;
  }

  void forget() override {
    layouts_.clear();
    memories_.clear();
    step_ = bad_step_ = -1;
  }

  void renumber(const Places& places) override {
    reset();
    for (const auto& [index, memory] : std::exchange(memories_, {}))
      if (index < places.size() && places[index])
        memories_[*places[index]] = memory;
  }

  ExchangeState state() const override {
    ExchangeState state;
    state.common.emplace_back("steps", torch::tensor(step_ + 1));
    for (const auto& [index, memory] : remember()) {
      state.common.emplace_back(concat("q/", index), memory.q);
      state.own.emplace_back(concat("error/", index), memory.error);
    }
    return state;
  }

  void load(const ExchangeState& state) override {
    reset();
    memories_.clear();
    step_ = state.common.at(0).second.item<int>() - 1;
    for (std::size_t i = 0; i < state.own.size(); ++i) {
      const std::string& name = state.own[i].first;
      memories_[std::stoul(name.substr(name.find('/') + 1))] = {
          state.common.at(i + 1).second, state.own[i].second};
    }
  }

 private:
  // Copies, which later steps leave alone.
  std::map<std::size_t, Memory> remember() const {
    std::map<std::size_t, Memory> memories = memories_;
    for (const auto& [bucket, layout] : layouts_)
      for (const Matrix& matrix : layout.matrices)
        memories[matrix.index] = copy_of(matrix.memory_without(bad_step_));
    return memories;
  }
  static Memory copy_of(const Memory& memory) {
    return {memory.q.clone(), memory.error.clone()};
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
        layout.plain.push_back(
            {i, layout.first.cut(bucket.gradient(i).sizes())});
    return layout;
  }

  Matrix make_matrix(const Bucket& bucket, std::size_t member,
                     Layout& layout) const {
    const at::Tensor m = as_matrix(bucket, member);
    const std::size_t index = bucket.members()[member].index;
    Matrix matrix{member,
                  index,
                  layout.first.cut({m.size(0), options_.rank}),
                  layout.second.cut({m.size(1), options_.rank}),
                  {},
                  {at::empty({m.size(1), options_.rank}, m.options()),
                   at::empty_like(m)}};
    const auto found = memories_.find(index);
    // A parameter may have been given other sizes or another type since.
    if (found != memories_.end() && found->second.error.sizes() == m.sizes()) {
      matrix.memory = {found->second.q.to(m.scalar_type(), false, true),
                       found->second.error.to(m.scalar_type(), false, true)};
      return matrix;
    }
    // The same start on all ranks.
    auto generator = at::detail::createCPUGenerator(options_.seed + index);
    matrix.memory = {
        at::randn(matrix.q.sizes(), generator, at::TensorOptions(at::kFloat))
            .to(m.scalar_type()),
        at::zeros_like(m)};
    return matrix;
  }

  // What an average of the gradients themselves gives. Where it is not finite,
  // the step is a bad one, for all ranks.
  std::int64_t average_plainly(const comm::Group& group, Bucket& bucket,
                               int divisor) {
    const std::int64_t bytes = plain_->average(group, bucket, divisor);
    if (!at::isfinite(bucket.shared()).all().item<bool>()) bad_step_ = step_;
    return bytes;
  }

  // False where a number is not finite; gradients and memories are left as they
  // are in any case.
  bool find_factors(const comm::Group& group, const Bucket& bucket, int divisor,
                    Layout& layout, std::int64_t& bytes) const {
    for (Matrix& matrix : layout.matrices) project(bucket, matrix);
    for (const Plain& plain : layout.plain)
      plain.wire.copy_(shared_view(bucket, plain.member));
    bytes += layout.first.average(group, divisor);
    if (!layout.first.is_finite()) return false;
    for (Matrix& matrix : layout.matrices) {
      orthonormalize(matrix.p);
      matrix.q.copy_(wide(matrix.before.error).t().mm(wide(matrix.p)));
    }
    bytes += layout.second.average(group, divisor);
    return std::all_of(
        layout.matrices.begin(), layout.matrices.end(),
        [](const Matrix& matrix) { return has_finite_product(matrix); });
  }

  // Elements of P are at most 1.
  static bool has_finite_product(const Matrix& matrix) {
    if (matrix.q.numel() == 0) return true;
    const at::Tensor bound = matrix.q.to(at::kDouble).abs().sum(1).max();
    return bound.item<double>() < 0.5 * largest_of(matrix.q.scalar_type());
  }

  // The gradient and what was lost go to the place of the older error.
  void project(const Bucket& bucket, Matrix& matrix) const {
    if (matrix.step == bad_step_ && matrix.step >= 0) matrix.go_back();
    matrix.step = -1;
    const at::Tensor m = as_matrix(bucket, matrix.member);
    at::add_out(matrix.before.error, m, matrix.memory.error);
    matrix.before.q.copy_(matrix.memory.q);
    orthonormalize(matrix.before.q);
    matrix.p.copy_(wide(matrix.before.error).mm(wide(matrix.before.q)));
  }

  void restore(const Bucket& bucket, Matrix& matrix) const {
    at::Tensor m = as_matrix(bucket, matrix.member);
    m.copy_(portable_product(matrix.p, matrix.q.t()));
    if (options_.error_feedback)
      matrix.before.error.sub_(m);
    else
      matrix.before.error.zero_();
    matrix.before.q.copy_(matrix.q);
    std::swap(matrix.memory, matrix.before);
    matrix.step = step_;
  }

  PowerSgdOptions options_;
  std::unique_ptr<BucketExchange> plain_;
  std::map<const Bucket*, Layout> layouts_;
  std::map<std::size_t, Memory> memories_;  // of earlier layouts
  int step_ = -1;      // the pass that is under way, or the last one
  int bad_step_ = -1;  // the last one that could not be taken
};

}  // namespace

std::unique_ptr<BucketExchange> make_power_sgd_exchange(
    const PowerSgdOptions& options) {
  return std::make_unique<PowerSgd>(options);
}

}  // namespace sheaf::parallel

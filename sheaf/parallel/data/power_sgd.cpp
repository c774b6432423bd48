// PowerSGD. A gradient matrix M (n x m) is sent as P (n x r) and Q (m x r):
//   M += the approximation error of the last step
//   P = M Q, averaged over ranks, columns orthonormalized
//   Q = M' P, averaged over ranks
//   the average is approximated by P Q'; M - P Q' is the error of this step
// Q, orthonormalized, is the start of the next step, so that successive steps
// form a power iteration. Bytes per rank: r (n + m) elements instead of n m.
// All matrices of a bucket share two messages; vectors are sent uncompressed
// with the first.
//
// All ranks compute bitwise equal results from the averages; see
// portable_product.hpp.
//
// Non-finite values appear in the averages of P and Q, which are equal on all
// ranks. The bucket's gradients are then averaged uncompressed, so that the
// result is that of an ordinary average, and the bucket keeps its state. If
// that average is not finite either, the optimizer cannot take the step, and at
// the next step all buckets revert to the state before it. Therefore each
// matrix keeps two states.
//
// Q and the error outlive the buckets: they are kept by parameter when buckets
// are rebuilt, and are part of checkpoints.

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/parallel/matrix/portable_product.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::parallel {
namespace {

// A block of shared memory from which tensors are allocated.
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

// The state of a parameter at the start of a step.
struct Memory {
  at::Tensor q, error;
};

struct Matrix {
  std::size_t member = 0;
  std::size_t index = 0;  // of the parameter
  at::Tensor p, q;        // sent in messages
  Memory memory;
  Memory before;  // the state before `step`
  int step = -1;

  // Reverts to the state before `step`.
  void go_back() {
    std::swap(memory, before);
    step = -1;
  }
  // The state to continue from, if the step `bad_step` could not be taken.
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
  Block first;   // P and the uncompressed gradients
  Block second;  // Q
};

// The member's part of the bucket's shared memory, which may be staging memory
// of a device.
at::Tensor shared_view(const Bucket& bucket, std::size_t member) {
  const at::Tensor& view = bucket.gradient(member);
  return bucket.shared().as_strided(view.sizes(), view.strides(),
                                    view.storage_offset());
}

// The number of rows of the gradient as a matrix: the size of the axis that is
// outermost in memory.
std::int64_t rows_of(const at::Tensor& gradient) {
  if (gradient.is_contiguous()) return gradient.size(0);
  const auto strides = gradient.strides();
  return gradient.size(std::max_element(strides.begin(), strides.end()) -
                       strides.begin());
}

// The member's memory as a matrix; the order of the other axes does not matter.
at::Tensor as_matrix(const Bucket& bucket, std::size_t member) {
  const at::Tensor& view = bucket.gradient(member);
  return bucket.shared()
      .narrow(0, view.storage_offset(), view.numel())
      .view({rows_of(view), -1});
}

// Some matrix products are not implemented for 16-bit types on the CPU.
at::Tensor wide(const at::Tensor& tensor) {
  return tensor.element_size() < 4 ? tensor.to(at::kFloat) : tensor;
}

double largest_of(at::ScalarType type) {
  switch (type) {
    case at::kHalf:
      return std::numeric_limits<at::Half>::max();
    case at::kDouble:
      return std::numeric_limits<double>::max();
    default:  // bf16 has nearly the same maximum
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
    SHEAF_CHECK(state.common.size() == state.own.size() + 1,
                "the saved state of PowerSGD has ", state.common.size(),
                " common and ", state.own.size(),
                " own tensors; at least one is missing");
    step_ = state.common[0].second.item<int>() - 1;
    for (std::size_t i = 0; i < state.own.size(); ++i) {
      const std::string& name = state.own[i].first;
      const auto index =
          parse_count(std::string_view(name).substr(name.find('/') + 1));
      SHEAF_CHECK(index, "the saved state of PowerSGD has the tensor '",
                  printable(name), "', which does not end in a number");
      memories_[static_cast<std::size_t>(*index)] = {state.common[i + 1].second,
                                                     state.own[i].second};
    }
  }

 private:
  // Returns copies, which later steps do not modify.
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
    const std::int64_t n = rows_of(view);
    const std::int64_t m = view.numel() / std::max<std::int64_t>(n, 1);
    return options_.rank * (n + m) * 2 < n * m;
  }

  Layout make_layout(const comm::Group& group, const Bucket& bucket) const {
    std::int64_t first = 0;
    std::int64_t second = 0;
    for (std::size_t i = 0; i < bucket.size(); ++i) {
      const at::Tensor& view = bucket.gradient(i);
      const bool is_matrix = is_worth_it(view);
      first += is_matrix ? options_.rank * rows_of(view) : view.numel();
      if (is_matrix) second += options_.rank * view.numel() / rows_of(view);
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
    // The same seed on all ranks.
    auto generator = at::detail::createCPUGenerator(options_.seed + index);
    matrix.memory = {
        at::randn(matrix.q.sizes(), generator, at::TensorOptions(at::kFloat))
            .to(m.scalar_type()),
        at::zeros_like(m)};
    // A parameter may have been given other sizes or another type since, and
    // the rank may differ from that of a run that is resumed.
    const auto found = memories_.find(index);
    if (found == memories_.end()) return matrix;
    const auto& [q, error] = found->second;
    if (error.sizes() != m.sizes()) return matrix;
    matrix.memory.error = error.to(m.scalar_type(), false, true);
    if (q.sizes() == matrix.q.sizes())
      matrix.memory.q = q.to(m.scalar_type(), false, true);
    return matrix;
  }

  // Averages the gradients without compression. If the result is not finite,
  // the step is marked as bad, on all ranks.
  std::int64_t average_plainly(const comm::Group& group, Bucket& bucket,
                               int divisor) {
    const std::int64_t bytes = plain_->average(group, bucket, divisor);
    if (!at::isfinite(bucket.shared()).all().item<bool>()) bad_step_ = step_;
    return bytes;
  }

  // Returns false if a value is not finite. Gradients and states are not
  // modified in either case.
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

  // The elements of P are at most 1 in absolute value.
  static bool has_finite_product(const Matrix& matrix) {
    if (matrix.q.numel() == 0) return true;
    const at::Tensor bound = matrix.q.to(at::kDouble).abs().sum(1).max();
    return bound.item<double>() < 0.5 * largest_of(matrix.q.scalar_type());
  }

  // The sum of gradient and error is stored in the memory of the older error.
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
  std::map<std::size_t, Memory> memories_;  // states from earlier layouts
  int step_ = -1;                           // the current pass, or the last one
  int bad_step_ = -1;  // the last step that could not be taken
};

}  // namespace

std::unique_ptr<BucketExchange> make_power_sgd_exchange(
    const PowerSgdOptions& options) {
  return std::make_unique<PowerSgd>(options);
}

}  // namespace sheaf::parallel

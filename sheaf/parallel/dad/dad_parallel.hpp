#pragma once
// Data parallelism that exchanges what gradients are made of: the inputs of
// layers and the gradients of their outputs. For any module, unmodified; see
// docs/dad.md.
//
//   sheaf::DadParallel model(net, world);
//   loss(model.forward(batch.data), batch.target).backward();
//   optimizer.step();  // all ranks take the same step
//
// The first forward() finds out how parameters are used; then it is decided
// which route the gradient of each takes.

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/parallel/common/tensors_in.hpp"
#include "sheaf/parallel/dad/dad_plan.hpp"

namespace sheaf::parallel {

enum class Average {
  kRows,   // a rank's loss is the mean over its rows; ranks count by rows
  kRanks,  // ranks count alike
};

struct DadOptions {
  DadMode mode = DadMode::kDad;
  int rank = 4;          // rank-dad: rows of the factors at most
  double tolerance = 0;  // rank-dad: fewer, where the rest is small
  int feedback_rows = 16;
  int power_iterations = 0;      // rank-dad as in dad_torch; 0: exact factors
  bool allows_low_rank = false;  // auto may choose rank-dad
  Where where = Where::kAllGather;
  // rank-dad with kStar: what the root sends back is of that rank, too.
  bool is_two_way = false;
  std::optional<at::ScalarType> wire = {};   // f16 or bf16 on the way
  std::optional<bool> skips_zeros = {};      // of ReLU; none: where it pays
  bool first_layer_gradient = false;         // keeps the data at home
  std::map<std::string, Route> routes = {};  // by name of the parameter
  // The same, from a plan; the two above override it.
  std::map<std::string, Route> planned = {};
  // Of those that take gradients; null: as they are.
  std::shared_ptr<BucketExchange> exchange = {};
  std::optional<LinkModel> link = {};  // none: it is measured
  // auto: plans that are predicted to be close are tried in the first steps;
  // none: unless `link` is given. What low rank holds back is dropped when
  // the plan changes.
  std::optional<bool> has_trials = {};
  Average average = Average::kRows;
  bool broadcast_buffers = true;
  bool find_unused_parameters = true;  // among those that take gradients
  double bucket_mb = 25;
  // Factors of layers share a message up to this size.
  double parcel_bytes = kParcelBytes;
  Overlap overlap = Overlap::kAuto;
  TraceWriter* trace = nullptr;
};

// The route of one parameter's gradient.
struct DadRoute {
  std::string name;
  std::string route;  // "gradient", "dad", "rank-dad", "with its weight"
  std::string reason;
  std::int64_t in = 0;
  std::int64_t out = 0;
  FactorStats last;  // of the last pass
};

// What DadParallel does, for any kind of module. Not thread-safe.
class DadParallelCore : public Strategy {
 public:
  DadParallelCore(std::shared_ptr<torch::nn::Module> module,
                  const comm::Group& group, DadOptions options);
  ~DadParallelCore() override;

  void before_forward() override { before_forward(std::nullopt); }
  // `rows` of this rank, for Average::kRows.
  void before_forward(std::optional<std::int64_t> rows);
  void after_forward(const std::vector<at::Tensor*>& outputs) override;

  // Known after the first forward().
  std::vector<DadRoute> routes() const;
  // The same as a table.
  std::string describe_routes() const;
  // Whether plans are still being tried; see DadOptions::has_trials.
  bool is_trying() const;
  // What auto has decided, which depends on times that were measured; empty
  // before, and for other modes. It is part of gather_state(), which ends the
  // trials: a resumed run has the routes of the one that was saved.
  FixedRoutes fixed_routes() const;
  // Lets auto repeat that instead of deciding, where the parameters are the
  // same. Before the first forward(); the same on all ranks.
  void fix_routes(FixedRoutes routes);

  void share_buffers() override;
  void check_weights() const override;
  ExchangeStats stats() const override;
  void reset_stats() override;
  const comm::Group& group() const override;
  NamedTensors gather_state() const override;
  void load_state(const NamedTensors& saved) override;

 protected:
  bool is_syncing() const override;
  void set_sync(bool is_on) override;
  // For a forward() that throws; after_forward() does it by itself.
  void stop_watching();

  // Between before_forward() and after_forward(): whether gradients of these
  // must be freed of the weight by which Average::kRows multiplies those of
  // outputs. They belong to other parts of the program, or to forwards whose
  // outputs have a weight of their own.
  bool weighs(const std::vector<const at::Tensor*>& inputs) const;
  // Of this rank's rows.
  double weight() const;
  class Unweighted {
   public:
    // Replaces those that require a gradient.
    void take(const std::vector<at::Tensor*>& inputs, double weight);
    // Puts back those that are still there. UsageError when one of them was
    // changed in place, which its owner would not see.
    void give_back(const std::vector<at::Tensor*>& inputs) const;

   private:
    struct Pair {
      at::Tensor given;
      at::Tensor used;
      std::uint32_t version = 0;
    };
    std::vector<Pair> pairs_;
  };

 private:
  void wrap();
  void check_nothing_waits();
  void see(Product product);
  void make_plan();
  void install(const RouteCandidate& candidate);
  void load_saved();
  void go_on_with_trials();
  bool is_idle_everywhere() const;
  void end_trials();
  void decide() const;

  struct State;
  std::unique_ptr<State> state_;
};

template <class Module>
class DadParallel : public DadParallelCore {
 public:
  DadParallel(std::shared_ptr<Module> module, const comm::Group& group,
              DadOptions options = {})
      : DadParallelCore(module, group, std::move(options)),
        module_(std::move(module)) {}
  DadParallel(const torch::nn::ModuleHolder<Module>& module,
              const comm::Group& group, DadOptions options = {})
      : DadParallel(module.ptr(), group, std::move(options)) {}

  // The first tensor's first axis is the rows.
  template <class... Args>
  auto forward(Args&&... args) {
    std::vector<const at::Tensor*> inputs;
    (collect_tensors(std::as_const(args), inputs), ...);
    if (!inputs.empty() && inputs[0]->dim() > 0)
      before_forward(inputs[0]->size(0));
    else
      DadParallelCore::before_forward();
    const StopAtEnd stop{*this};
    auto output = weighs(inputs)
                      ? forward_unweighted(std::forward<Args>(args)...)
                      : module_->forward(std::forward<Args>(args)...);
    static_assert(holds_tensors<decltype(output)>(),
                  "forward() must return a tensor, or a tuple or a list with "
                  "tensors, for DadParallel to follow their gradients");
    std::vector<at::Tensor*> outputs;
    collect_tensors(output, outputs);
    after_forward(outputs);
    return output;
  }

  Module& operator*() const { return *module_; }
  Module* operator->() const { return module_.get(); }
  const std::shared_ptr<Module>& module() const { return module_; }

 private:
  using DadParallelCore::before_forward;
  // With copies of the arguments, whose tensors can be replaced. What the
  // module assigns to its arguments reaches the caller's.
  template <class... Args>
  auto forward_unweighted(Args&&... args) {
    if constexpr ((can_copy<Args>() && ...)) {
      std::tuple<std::decay_t<Args>...> copies(args...);
      std::vector<at::Tensor*> inputs;
      collect_tensors(copies, inputs);
      Unweighted unweighted;
      unweighted.take(inputs, weight());
      auto output = std::apply(
          [&](auto&... one) {
            return module_->forward(static_cast<Args&&>(one)...);
          },
          copies);
      inputs.clear();
      collect_tensors(copies, inputs);
      unweighted.give_back(inputs);
      std::apply([&](auto&... one) { (assign<Args>(args, one), ...); }, copies);
      return output;
    } else {
      throw UsageError(
          "forward() has arguments that cannot be copied, and some of them "
          "require gradients, while ranks with unequal numbers of rows are "
          "weighted; use Average::kRanks");
      return module_->forward(std::forward<Args>(args)...);
    }
  }
  template <class Arg>
  static constexpr bool can_copy() {
    using Plain = std::remove_cvref_t<Arg>;
    return std::is_same_v<std::decay_t<Arg>, Plain> &&
           std::is_copy_constructible_v<Plain>;
  }
  template <class Arg, class T>
  static void assign(std::remove_reference_t<Arg>& argument, T& value) {
    if constexpr (std::is_lvalue_reference_v<Arg> &&
                  std::is_assignable_v<decltype((argument)), T&>)
      argument = value;
  }
  struct StopAtEnd {
    DadParallel& model;
    ~StopAtEnd() { model.stop_watching(); }
  };
  std::shared_ptr<Module> module_;
};

template <class Holder, class... Rest>
DadParallel(const Holder&, Rest&&...)
    -> DadParallel<typename Holder::ContainedType>;
template <class Module, class... Rest>
DadParallel(std::shared_ptr<Module>, Rest&&...) -> DadParallel<Module>;

}  // namespace sheaf::parallel

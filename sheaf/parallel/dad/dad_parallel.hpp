#pragma once
// Data parallelism that exchanges the factors of each gradient: the inputs of
// layers and the gradients of their outputs. Works with any unmodified module;
// see docs/explanation/dad.md.
//
//   sheaf::DadParallel model(net, world);
//   loss(model(batch.data), batch.target).backward();
//   optimizer.step();  // all ranks take the same step
//
// The first forward() records how parameters are used; the route of each
// gradient is then chosen.

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/common/module_wrapper.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/parallel/dad/dad_options.hpp"
#include "sheaf/parallel/dad/row_weights.hpp"

namespace sheaf::parallel {

struct Product;         // products.hpp
struct RouteCandidate;  // dad_plan.hpp

// The route of one parameter's gradient.
struct DadRoute {
  std::string name;
  // "gradient", "dad", "edad", "rank-dad", "with its weight"
  std::string route;
  std::string reason;
  std::int64_t in = 0;
  std::int64_t out = 0;
  FactorStats last;  // statistics of the last pass
};

// The part of DadParallel that does not depend on the module's type. Not
// thread-safe. All ranks of the group must create it together. Throws
// UsageError on all ranks if their modules or options differ.
class DadParallelCore : public Strategy {
 public:
  using Options = DadOptions;

  DadParallelCore(std::shared_ptr<torch::nn::Module> module,
                  const comm::Group& group, DadOptions options);
  ~DadParallelCore() override;

  void before_forward() override { before_forward(std::nullopt); }
  // `rows`: this rank's number of rows, for Average::kRows.
  void before_forward(std::optional<std::int64_t> rows);
  void after_forward(const std::vector<at::Tensor*>& outputs) override;

  // Not supported: every pass sends the factors of all ranks, and a rank that
  // has finished has none. Give ranks without data empty batches instead.
  template <class... Args>
  void join(const Args&...) {
    static_assert(sizeof...(Args) > 64,
                  "DadParallel has no join(); give ranks without data empty "
                  "batches, or use DataParallel");
  }

  // Empty before the first forward().
  std::vector<DadRoute> routes() const;
  // The routes as a table.
  std::string describe_routes() const;
  // Whether plans are still being tried; see DadOptions::has_trials.
  bool is_trying() const;
  // The routes that auto has chosen, which depend on measured times. Empty
  // before the choice and in other modes. They are part of gather_state(),
  // which ends the trials: a resumed run uses the routes of the saved run.
  FixedRoutes fixed_routes() const;
  // Makes auto reuse these routes if the parameters are the same. Must be
  // called before the first forward(), with the same routes on all ranks.
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
  void end_forward() override { stop_watching(); }
  const std::optional<torch::Device>& device() const;

  // Called between before_forward() and after_forward(): whether the gradients
  // of these inputs must be divided by the weight that Average::kRows applies
  // to the gradients of outputs.
  bool weighs(const std::vector<const at::Tensor*>& inputs) const;
  // The weight of this rank's rows.
  double weight() const;

  // Runs one forward pass; `call` calls the module.
  template <class Call, class... Args>
  auto run(const Call& call, Args&&... args) {
    std::vector<const at::Tensor*> inputs;
    (collect_tensors(std::as_const(args), inputs), ...);
    if (!inputs.empty() && inputs[0]->dim() > 0)
      before_forward(inputs[0]->size(0));
    else
      before_forward();
    return finish_forward([&] {
      auto output = weighs(inputs)
                        ? run_unweighted(call, std::forward<Args>(args)...)
                        : call(std::forward<Args>(args)...);
      static_assert(holds_tensors<decltype(output)>(),
                    "forward() must return a tensor, or a tuple or a list with "
                    "tensors, for DadParallel to follow their gradients");
      return output;
    });
  }

 private:
  // Calls the module with copies of the arguments, whose tensors can be
  // replaced. Assignments of the module to its arguments are copied back to the
  // caller's arguments.
  template <class Call, class... Args>
  auto run_unweighted(const Call& call, Args&&... args) {
    if constexpr ((can_copy<Args>() && ...)) {
      std::tuple<std::decay_t<Args>...> copies(args...);
      std::vector<at::Tensor*> inputs;
      collect_tensors(copies, inputs);
      UnweightedInputs unweighted;
      unweighted.take(inputs, weight());
      auto output = std::apply(
          [&](auto&... one) { return call(static_cast<Args&&>(one)...); },
          copies);
      inputs.clear();
      collect_tensors(copies, inputs);
      unweighted.give_back(inputs);
      std::apply([&](auto&... one) { (assign<Args>(args, one), ...); }, copies);
      return output;
    } else {
      throw UsageError(
          "forward() has arguments that cannot be copied and arguments that "
          "require gradients, while ranks with unequal numbers of rows are "
          "weighted; use Average::kRanks");
      return call(std::forward<Args>(args)...);
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

  void wrap();
  // Must be called if forward() throws; after_forward() does it otherwise.
  void stop_watching();
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

// Checks that all ranks have built the same module, then copies rank 0's
// parameters and buffers to all ranks, like DataParallel. forward() must return
// a tensor, or tuples or lists with tensors; the number of rows is the size of
// the first axis of the first tensor given to it. The model keeps the module
// and a copy of the group.
template <class Module>
class DadParallel : public ModuleWrapper<Module, DadParallelCore> {
 public:
  using ModuleWrapper<Module, DadParallelCore>::ModuleWrapper;
};

SHEAF_DEDUCE_MODULE(DadParallel, DadOptions);

}  // namespace sheaf::parallel

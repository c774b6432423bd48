#pragma once
// Data parallelism for any module: every rank computes on its own examples,
// and gradients are averaged when backward() returns.
//
//   auto net = std::make_shared<LeNet>();
//   sheaf::DataParallel model(net, world);
//   loss(model.forward(batch.data), batch.target).backward();
//   optimizer.step();  // all ranks take the same step

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/strategy.hpp"
#include "sheaf/parallel/data/reducer.hpp"

namespace sheaf::parallel {

struct DataParallelOptions {
  double bucket_mb = 25;       // a bucket's size at most; see docs/parallel.md
  double first_bucket_mb = 1;  // small, so that the exchange starts early
  bool broadcast_buffers = true;  // rank 0's, before each forward
  bool find_unused_parameters = false;
  bool static_graph = false;  // the same parameters are used in every step
  Overlap overlap = Overlap::kAuto;
  // The module is moved there, and so are tensors given to forward().
  std::optional<torch::Device> device = {};
  std::shared_ptr<BucketExchange> exchange = {};  // null: gradients as they are
  TraceWriter* trace = nullptr;
  // Parameters whose gradients stay with their ranks, which may then differ in
  // them. There must be others.
  std::vector<at::Tensor> kept = {};
};

struct JoinOptions {
  // Averages over the ranks that still have data, not over all.
  bool divide_by_active_ranks = false;
};

// What DataParallel does, for any kind of module. Not thread-safe.
class DataParallelCore : public Strategy {
  struct State;
  struct JoinState;

 public:
  DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                   const comm::Group& group, DataParallelOptions options);
  ~DataParallelCore() override;

  void before_forward() override;
  void after_forward(const std::vector<at::Tensor*>& outputs) override;

  // For ranks with unequal numbers of steps: all ranks make a guard before
  // their loop and call finish() after it. A rank that has finished takes part
  // in the steps of the others without data, until all have; then all get the
  // weights of one that stepped last.
  class [[nodiscard]] Join {
   public:
    Join(const std::vector<DataParallelCore*>& models,
         const JoinOptions& options);
    Join(DataParallelCore& model, const JoinOptions& options)
        : Join(std::vector{&model}, options) {}
    ~Join();
    Join(const Join&) = delete;
    Join& operator=(const Join&) = delete;
    void finish();

   private:
    static void check_can_join(const DataParallelCore& model);

    std::shared_ptr<JoinState> state_;
    bool has_finished_ = false;
  };
  Join join(const JoinOptions& options = {}) { return Join(*this, options); }

  void share_buffers() override;
  void check_weights() const override;
  ExchangeStats stats() const override;
  void reset_stats() override;
  const comm::Group& group() const override;
  NamedTensors gather_state() const override;
  void load_state(const NamedTensors& saved) override;

 protected:
  const std::optional<torch::Device>& device() const;
  bool is_syncing() const override;
  void set_sync(bool is_on) override;
  // Called within backward(), before the first gradient of a pass that is
  // exchanged.
  void set_before_pass(std::function<void()> action);

 private:
  void wrap();

  std::unique_ptr<State> state_;
};

// join() of several models that are trained in the same loop, such as the two
// of a GAN. They are of the same group.
[[nodiscard]] inline DataParallelCore::Join join_models(
    const std::vector<DataParallelCore*>& models,
    const JoinOptions& options = {}) {
  return {models, options};
}

// Parameters and buffers of `module` become rank 0's, after a check that all
// ranks have built the same module. All ranks of the group make it together.
// The module may change later (types, devices, frozen and replaced parameters),
// if it does so on all ranks before the same forward().
template <class Module>
class DataParallel : public DataParallelCore {
 public:
  DataParallel(std::shared_ptr<Module> module, const comm::Group& group,
               DataParallelOptions options = {})
      : DataParallelCore(module, group, std::move(options)),
        module_(std::move(module)) {}
  DataParallel(const torch::nn::ModuleHolder<Module>& module,
               const comm::Group& group, DataParallelOptions options = {})
      : DataParallel(module.ptr(), group, std::move(options)) {}

  template <class... Args>
  auto forward(Args&&... args) {
    before_forward();
    auto output = module_->forward(on_device(std::forward<Args>(args))...);
    after_forward(tensors_in(output));
    return output;
  }

  Module& operator*() const { return *module_; }
  Module* operator->() const { return module_.get(); }
  const std::shared_ptr<Module>& module() const { return module_; }

 private:
  template <class T>
  decltype(auto) on_device(T&& value) const {
    if constexpr (std::is_same_v<std::decay_t<T>, at::Tensor>)
      return device() ? value.to(*device()) : at::Tensor(value);
    else
      return std::forward<T>(value);
  }

  std::shared_ptr<Module> module_;
};

// TORCH_MODULE's holders: `Net net; DataParallel model(net, world);`
template <class Holder, class... Rest>
DataParallel(const Holder&, Rest&&...)
    -> DataParallel<typename Holder::ContainedType>;
template <class Module, class... Rest>
DataParallel(std::shared_ptr<Module>, Rest&&...) -> DataParallel<Module>;

}  // namespace sheaf::parallel

#pragma once
// Data parallelism for any module: each rank computes on different examples,
// and gradients are averaged when backward() returns.
//
//   auto net = std::make_shared<LeNet>();
//   sheaf::DataParallel model(net, world);
//   loss(model(batch.data), batch.target).backward();
//   optimizer.step();  // all ranks take the same step

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sheaf/comm/group/group.hpp"
#include "sheaf/parallel/common/module_wrapper.hpp"
#include "sheaf/parallel/common/strategy.hpp"

namespace sheaf {
class TraceWriter;  // base/trace.hpp
}

namespace sheaf::parallel {

class BucketExchange;  // bucket_exchange.hpp

// DadOptions and SpatialOptions have the same options with the same defaults.
struct DataParallelOptions {
  double bucket_mb = 25;          // maximum bucket size in MiB
  double first_bucket_mb = 1;     // small, so that the exchange starts early
  bool broadcast_buffers = true;  // from rank 0, before each forward
  bool find_unused_parameters = false;
  bool static_graph = false;  // the same parameters are used in every step
  Overlap overlap = Overlap::kAuto;
  // The module and the tensors given to forward() are moved to this device.
  std::optional<torch::Device> device = {};
  // Null: no compression. Can be used by one model at a time.
  std::shared_ptr<BucketExchange> exchange = {};
  // Not owned; must outlive the model.
  TraceWriter* trace = nullptr;
  // Parameters whose gradients are not exchanged; their values may differ
  // between ranks. Other trained parameters must remain.
  std::vector<at::Tensor> kept = {};
};

struct JoinOptions {
  // Averages over the ranks that still have data instead of all ranks.
  bool divide_by_active_ranks = false;
};

// The part of DataParallel that does not depend on the module's type. Not
// thread-safe. Throws UsageError on all ranks if their modules or options
// differ.
class DataParallelCore : public Strategy {
  struct State;
  struct JoinState;

 public:
  using Options = DataParallelOptions;

  DataParallelCore(std::shared_ptr<torch::nn::Module> module,
                   const comm::Group& group, DataParallelOptions options);
  ~DataParallelCore() override;

  void before_forward() override;
  void after_forward(const std::vector<at::Tensor*>& outputs) override;

  // For ranks with unequal numbers of steps: all ranks create a guard before
  // their training loop and call finish() after it. A rank that has finished
  // takes part in the steps of the other ranks without data, until all have
  // finished. Then all ranks get the weights of a rank with the most steps. The
  // destructor calls finish() unless an exception is being thrown, and logs
  // errors. The models must outlive the guard.
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
  // Runs one forward pass; `call` calls the module.
  template <class Call, class... Args>
  auto run(const Call& call, Args&&... args) {
    return run_forward([&] { return call(std::forward<Args>(args)...); });
  }
  bool is_syncing() const override;
  void set_sync(bool is_on) override;
  // Sets an action that is called within backward(), before the first gradient
  // of each pass with exchange.
  void set_before_pass(std::function<void()> action);

 private:
  void wrap();

  std::unique_ptr<State> state_;
};

// join() for several models that are trained in the same loop, such as the two
// networks of a GAN. All models must have been wrapped with the same group.
[[nodiscard]] inline DataParallelCore::Join join_models(
    const std::vector<DataParallelCore*>& models,
    const JoinOptions& options = {}) {
  return {models, options};
}

// Checks that all ranks have built the same module, then copies rank 0's
// parameters and buffers to all ranks. All ranks of the group must create it
// together. The module may change later (types, devices, frozen or replaced
// parameters), provided that it changes on all ranks before the same forward().
// The model keeps the module and a copy of the group.
template <class Module>
class DataParallel : public ModuleWrapper<Module, DataParallelCore> {
 public:
  using ModuleWrapper<Module, DataParallelCore>::ModuleWrapper;
};

SHEAF_DEDUCE_MODULE(DataParallel, DataParallelOptions);

}  // namespace sheaf::parallel

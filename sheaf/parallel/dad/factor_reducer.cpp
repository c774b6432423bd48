#include "sheaf/parallel/dad/factor_reducer.hpp"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/tensor/groups/collectives.hpp"
#include "sheaf/tensor/groups/scope.hpp"

namespace sheaf::parallel {

FactorReducer::FactorReducer(std::vector<TrainedParameter> parameters,
                             const comm::Group& group, FactorPlan plan,
                             FactorOptions options, BackwardPass& pass)
    : parameters_(std::move(parameters)),
      group_(group),
      plan_(std::move(plan)),
      options_(std::move(options)),
      is_overlapping_(should_overlap(options_.overlap, group)),
      backward_(pass),
      sites_(parameters_.size()),
      exchange_(group, plan_.routes, options_.exchange),
      gradients_(parameters_, group.size()),
      remainders_(parameters_.size()),
      anyone_has_(parameters_.size()),
      parcel_of_(parameters_.size()) {
  group_.set_patient(is_overlapping_);
  for (std::size_t i = 0; i < plan_.backward.size(); ++i)
    for (const std::size_t weight : plan_.backward[i]) parcel_of_[weight] = i;
  exchange_.begin_pass(parameters_[0].tensor.device());
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    if (takes(i) || plan_.is_bias[i]) hooked_.push_back(i);
}

std::vector<BackwardPass::Connection> FactorReducer::connections() {
  std::vector<BackwardPass::Connection> list;
  for (const std::size_t i : hooked_)
    list.push_back({parameters_[i].tensor, this, i});
  return list;
}

// The state of a product's hook.
struct FactorReducer::Ticket {
  std::int64_t pass = 0;
  std::size_t call = 0;  // index among the calls of the block
  // Number of the call, to detect that another took its index.
  std::int64_t number = 0;
  Block* block = nullptr;
  Product product;  // without its node, which owns the hook
};

FactorReducer::~FactorReducer() {
  *self_ = nullptr;
  try {
    worker_.drain();
  } catch (...) {
    // Already thrown by backward(), or backward() has not finished.
  }
}

FactorReducer::Block& FactorReducer::block_for(const Product& product) {
  const BlockKey key{
      static_cast<std::int64_t>(product.weight),
      product.bias ? static_cast<std::int64_t>(*product.bias) : -1,
      product.view};
  auto& blocks = sites_[product.weight].blocks;
  for (const auto& block : blocks)
    if (block->key == key) return *block;
  blocks.push_back(std::make_unique<Block>());
  blocks.back()->key = key;
  return *blocks.back();
}

void FactorReducer::add(const Product& given) {
  const std::lock_guard lock(mutex_);
  Product product = given;
  // A bias that is also added by other weights may be exchanged as a gradient.
  if (product.bias && !plan_.is_bias[*product.bias]) product.bias.reset();
  Block& block = block_for(product);
  auto ticket = std::make_shared<Ticket>(
      Ticket{pass_, block.calls.size(), ++calls_, &block, product});
  ticket->product.node.reset();
  ticket->product.input_node.reset();
  block.calls.push_back({product.input, {}, product.input._version(), calls_});
  ++sites_[product.weight].calls;
  const auto tap = ProductTap::attach(product, handlers(ticket));
  if (plan_.routes[product.weight] != Route::kRankDad)
    seen_.push_back({product.nodes(), product.weight, &block, tap});
  if (backward_.is_syncing()) launch_forward(/*all=*/false);
}

ProductTap::Handlers FactorReducer::handlers(
    const std::shared_ptr<Ticket>& ticket) {
  const auto self = self_;
  return {[self, ticket] {
            SHEAF_CHECK(*self,
                        "this graph was recorded before its module changed or "
                        "its DadParallel was destroyed; call forward() again "
                        "before backward()");
            return (*self)->takes_delta(*ticket);
          },
          [self, ticket](const at::Tensor& gradient) {
            (*self)->take_delta(*ticket, ticket->product.delta(gradient));
            // Releases the input, as the graph releases its saved tensors.
            if (!torch::autograd::get_current_graph_task_keep_graph())
              ticket->product.input.reset();
          },
          [self, ticket] {
            if (*self) (*self)->drop(*ticket);
          }};
}

// The gradient is left to backward() if the user needs to see it: if the weight
// has a user hook, or if the user has provided memory for the gradient in a
// pass without exchange. It is also left to backward() if the weight's parcel
// has already been sent, as for a recomputed layer or the graph of an earlier
// pass. It is then a remainder.
bool FactorReducer::takes_delta(const Ticket& ticket) {
  {
    const std::lock_guard lock(mutex_);
    if (parcel_of_[ticket.product.weight] < next_backward_) return false;
  }
  const auto is_asked_for = [&](std::size_t parameter) {
    const at::Tensor& tensor = parameters_[parameter].tensor;
    // Zeros in memory of the user cannot be distinguished from a reset.
    const bool is_watched = !backward_.is_syncing() &&
                            tensor.grad().defined() && tensor.grad().is_view();
    return is_watched || !torch::autograd::impl::hooks(tensor).empty();
  };
  const auto& bias = ticket.product.bias;
  return !is_asked_for(ticket.product.weight) && !(bias && is_asked_for(*bias));
}

// Deltas are derived only if both layers have been called once: then their rows
// correspond to each other.
void FactorReducer::after_forward(const std::vector<at::Tensor*>& outputs) {
  std::vector<Seen> seen;  // destroyed without the lock; see drop()
  const std::lock_guard lock(mutex_);
  seen.swap(seen_);
  for (const Seen& one : seen) one.block->source = {};
  if (seen.empty() || !backward_.is_syncing()) return;
  std::vector<LayerNodes> layers;
  for (const Seen& one : seen) layers.push_back(one.nodes);
  const auto above = find_above(layers, outputs);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (!above[i] || plan_.routes[seen[i].weight] != Route::kEdad) continue;
    const Seen& from = seen[above[i]->layer];
    if (seen[i].block->calls.size() != 1 || from.block->calls.size() != 1)
      continue;
    // The order of the layers may differ from that in the forward() of the
    // plan.
    if (parcel_of_[from.weight] > parcel_of_[seen[i].weight]) continue;
    seen[i].block->source = {from.block->key, above[i]->activation};
    const auto chain = std::make_shared<DeltaChain>();
    seen[i].block->chain = chain;
    from.tap->begin(chain);
    if (above[i]->activation != Activation::kIdentity)
      watch_function(*from.nodes.input, chain);
    seen[i].tap->end(chain);
  }
}

std::optional<std::size_t> FactorReducer::source_of(
    std::size_t parameter) const {
  return sites_[parameter].source;
}

// Whether the call belongs to this pass, and its input has been sent if those
// of neighboring calls have.
bool FactorReducer::is_in_time(const Ticket& ticket) const {
  const Block& block = *ticket.block;
  if (ticket.pass != pass_ || ticket.call >= block.calls.size()) return false;
  const Call& call = block.calls[ticket.call];
  return call.number == ticket.number &&
         !(call.is_dropped && ticket.call < block.early);
}

// A delta that arrives after its pass, from a retained graph or an older
// forward(), counts as a new call of this pass.
void FactorReducer::take_delta(const Ticket& ticket, const at::Tensor& given) {
  // A delta that is kept for a later backward() may share memory with a
  // gradient that this backward() adds to, so it is copied.
  const at::Tensor delta = backward_.is_syncing() ? given : given.clone();
  if (backward_.is_syncing()) backward_.open();
  const std::lock_guard lock(mutex_);
  Site& site = sites_[ticket.product.weight];
  if (!backward_.is_syncing())
    forget_reset_rows(ticket.product.weight, /*is_changed=*/false);
  std::vector<Call>& calls = ticket.block->calls;
  if (is_in_time(ticket)) {
    Call& call = calls[ticket.call];
    const at::Tensor& input = ticket.product.input;
    if (call.is_dropped) {
      call = {input, {}, input._version(), ticket.number};
      ++site.calls;
    }
    call.delta = call.delta.defined() ? call.delta + delta : delta;
    ++call.arrivals;
  } else {
    const at::Tensor& input = ticket.product.input;
    calls.push_back({input, delta, input._version(), ++calls_, 1});
    ++site.calls;
  }
  if (!backward_.is_syncing())
    return site.mark.set(parameters_[ticket.product.weight].tensor);
  ++site.deltas;
  launch_forward(/*all=*/true);
  launch_backward(/*all=*/false);
}

// Releases the inputs of a forward() without backward(). Called by the
// destructor of the product's node, on the thread that releases the last
// reference to it.
void FactorReducer::drop(const Ticket& ticket) {
  const std::lock_guard lock(mutex_);
  if (!is_in_time(ticket)) return;
  Call& call = ticket.block->calls[ticket.call];
  if (call.delta.defined() || call.is_dropped ||
      ticket.call < ticket.block->early)
    return;
  drop(sites_[ticket.product.weight], call);
  remove_dropped(*ticket.block);
}

// Calls with deltas from passes without exchange are sent at the end of this
// pass, because more deltas may arrive for them.
void FactorReducer::begin_pass(std::optional<std::size_t> first) {
  const std::lock_guard lock(mutex_);
  forget_reset_locked(first);
  for (Site& site : sites_) site.deltas = 0;
}

void FactorReducer::launch_forward(bool all) {
  const auto is_complete = [&](std::size_t weight) {
    return sites_[weight].calls >= plan_.calls[weight];
  };
  for (; next_forward_ < plan_.forward.size(); ++next_forward_) {
    const auto& weights = plan_.forward[next_forward_];
    if (!all && !std::all_of(weights.begin(), weights.end(), is_complete))
      return;
    launch(pack(weights, /*is_backward=*/false));
  }
}

void FactorReducer::launch_backward(bool all) {
  // A recomputed layer has no call until backward() reaches it.
  const auto is_complete = [&](std::size_t weight) {
    const Site& site = sites_[weight];
    return site.deltas == site.calls && site.calls >= plan_.calls[weight];
  };
  for (; next_backward_ < plan_.backward.size(); ++next_backward_) {
    const auto& weights = plan_.backward[next_backward_];
    // The last parcel lists the remainders, which may arrive until the end.
    const bool is_last = next_backward_ + 1 == plan_.backward.size();
    if (!all &&
        (is_last || !std::all_of(weights.begin(), weights.end(), is_complete)))
      return;
    launch(pack(weights, /*is_backward=*/true));
  }
}

void FactorReducer::launch(Parcel parcel) {
  if (!is_overlapping_) {
    parcels_.push_back(std::move(parcel));
    return;
  }
  auto shared = std::make_shared<Parcel>(std::move(parcel));
  worker_.add([this, shared] {
    try {
      send(*shared);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      has_failed_ = true;
      changed_.notify_all();
      throw;
    }
    if (!shared->is_backward) return;
    const std::lock_guard lock(mutex_);
    ++arrived_;
    changed_.notify_all();
  });
}

void FactorReducer::wait_for(std::size_t parcels) {
  const tensor::Scope phase("sheaf::phase exchange");
  const Stopwatch watch;
  while (!is_overlapping_ && arrived_ < parcels) {
    Parcel parcel = std::move(parcels_.front());
    parcels_.pop_front();
    send(parcel);
    if (parcel.is_backward) ++arrived_;
  }
  if (is_overlapping_) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return arrived_ >= parcels || has_failed_; });
    lock.unlock();
    if (has_failed_) worker_.drain();
  }
  stats_.wait_ms += watch.ms();
}

void FactorReducer::make_gradient(std::size_t weight) {
  const Stopwatch watch;
  FactorStats& stats = sites_[weight].stats;
  stats.rows += gradients_.make(weight);
  stats.gradient_ms += watch.ms();
  stats_.gradient_ms += watch.ms();
}

void FactorReducer::finalize() {
  const at::NoGradGuard no_grad;
  {
    const std::lock_guard lock(mutex_);
    launch_forward(/*all=*/true);
    launch_backward(/*all=*/true);
  }
  for (std::size_t i = 0; i < plan_.backward.size(); ++i) {
    wait_for(i + 1);
    for (const std::size_t weight : plan_.backward[i]) make_gradient(weight);
  }
  settle();
  exchange_.end_pass();
  ++stats_.passes;
  ++ended_;
  remainders_.assign(parameters_.size(), {});
  clear(std::vector<bool>(parameters_.size(), true));
}

void FactorReducer::drain() noexcept {
  try {
    worker_.drain();
  } catch (...) {  // already reported, or from a discarded pass
  }
}

void FactorReducer::clear(const std::vector<bool>& is_gone) {
  drain();
  exchange_.forget_pass();
  std::vector<Seen> seen;  // destroyed without the lock; see drop()
  const std::lock_guard lock(mutex_);
  seen.swap(seen_);
  ++pass_;
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    Site& site = sites_[i];
    if (is_gone[i]) site.mark.clear();
    site.calls = 0;
    for (const auto& block : site.blocks) {
      if (site.mark.is_set())
        std::erase_if(block->calls,
                      [](const Call& one) { return !one.delta.defined(); });
      else
        block->calls.clear();
      site.calls += static_cast<std::int64_t>(block->calls.size());
      block->early = 0;
      block->source = {};
      block->chain.reset();
    }
    site.deltas = 0;
    site.last = std::exchange(site.stats, {});
  }
  gradients_.clear();
  std::fill(anyone_has_.begin(), anyone_has_.end(), false);
  parcels_.clear();
  next_forward_ = 0;
  next_backward_ = 0;
  arrived_ = 0;
  has_failed_ = false;
}

}  // namespace sheaf::parallel

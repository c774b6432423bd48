#include "sheaf/parallel/factor_reducer.hpp"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/tensor/collectives.hpp"
#include "sheaf/tensor/scope.hpp"

namespace sheaf::parallel {

FactorReducer::FactorReducer(std::vector<ReducedParameter> parameters,
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

// It is taken away, so that nothing is left behind if backward() throws. It may
// come in parts.
void FactorReducer::add(const NewGradient& given) {
  const at::NoGradGuard no_grad;
  const std::lock_guard lock(mutex_);
  const at::Tensor& parameter = parameters_[given.parameter].tensor;
  Remainder& remainder = remainders_[given.parameter];
  at::Tensor& gradient = parameter.mutable_grad();
  if (gradient.count_nonzero().item<bool>()) remainder.is_zero = false;
  if (remainder.gradient.defined()) {
    remainder.gradient = remainder.gradient + gradient;
    remainder.shares_memory = false;
  } else {
    remainder.gradient = gradient;
    remainder.shares_memory = !given.owns_memory;
  }
  gradient.reset();
  remainder.local.clear();
  GradientMark& mark = sites_[given.parameter].mark;
  if (mark.is_set()) mark.set(parameter);
}

void FactorReducer::add_local(const NewGradient& given) {
  const std::lock_guard lock(mutex_);
  const at::Tensor& parameter = parameters_[given.parameter].tensor;
  Remainder& remainder = remainders_[given.parameter];
  if (!given.owns_memory) remainder.shares_memory = true;
  GradientMark& mark = sites_[given.parameter].mark;
  // It replaces gradients in place of adding to them, as a reset does.
  SHEAF_CHECK(!mark.is_set() || !at::GradMode::is_enabled(),
              "backward() with create_graph in no_sync(), while rows of ",
              parameters_[given.parameter].name,
              " wait for their exchange; call it before the others, or after "
              "the exchange");
  forget_reset_rows(given.parameter, /*is_changed=*/true);
  if (mark.is_set()) mark.set(parameter);
  if (parameter.grad().count_nonzero().item<bool>())
    remainder.local.set(parameter);
}

void FactorReducer::forget_reset_gradients() {
  std::vector<Seen> seen;  // of a forward() that threw
  const std::lock_guard lock(mutex_);
  seen.swap(seen_);
  // Before the pass's first parcel, which may leave during forward().
  exchange_.begin_pass(parameters_[0].tensor.device());
  forget_reset_locked(std::nullopt);
}

void FactorReducer::forget_reset_locked(std::optional<std::size_t> changed) {
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (!parameters_[i].tensor.grad().defined()) remainders_[i].local.clear();
    forget_reset_rows(i, /*is_changed=*/changed == i);
  }
}

// `is_changed`: backward() has just added to the gradient.
void FactorReducer::forget_reset_rows(std::size_t parameter, bool is_changed) {
  Site& site = sites_[parameter];
  const auto& [name, tensor, is_sparse] = parameters_[parameter];
  if (!site.mark.is_set()) return;
  if (site.mark.is_gone(tensor)) {
    for (const auto& block : site.blocks)
      for (std::size_t k = 0; k < block->calls.size(); ++k) {
        Call& call = block->calls[k];
        if (!call.delta.defined()) continue;
        call.delta.reset();
        call.arrivals = 0;
        if (k >= block->early) drop(site, call);
      }
    for (const auto& block : site.blocks) remove_dropped(*block);
    site.mark.clear();
    return;
  }
  SHEAF_CHECK(is_changed || !site.mark.has_changed(), "the gradient of ", name,
              " was changed after a backward() in no_sync(), whose rows "
              "DadParallel keeps until the next exchange; reset gradients by "
              "forget_gradients(), and change them after the exchange");
}

// A call without rows. Its number stays where later calls have theirs.
void FactorReducer::drop(Site& site, Call& call) {
  call.is_dropped = true;
  call.input.reset();
  --site.calls;
}

void FactorReducer::remove_dropped(Block& block) {
  while (!block.calls.empty() && block.calls.back().is_dropped)
    block.calls.pop_back();
}

bool FactorReducer::has_local() {
  const std::lock_guard lock(mutex_);
  forget_reset_locked(std::nullopt);
  return std::any_of(sites_.begin(), sites_.end(),
                     [](const Site& site) { return site.mark.is_set(); }) ||
         std::any_of(remainders_.begin(), remainders_.end(),
                     [](const Remainder& one) { return one.is_sent(); });
}

// What a product's hook knows.
struct FactorReducer::Ticket {
  std::int64_t pass = 0;
  std::size_t call = 0;     // its place among the block's
  std::int64_t number = 0;  // of the call: another may take its place
  Block* block = nullptr;
  Product product;  // without its node, which owns the hook
};

FactorReducer::~FactorReducer() {
  *self_ = nullptr;
  try {
    worker_.drain();
  } catch (...) {  // backward() has thrown it, or was never finished
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
  // A bias that other weights add, too, may be exchanged as a gradient.
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
            // The graph, too, lets go of what it has saved.
            if (!torch::autograd::get_current_graph_task_keep_graph())
              ticket->product.input.reset();
          },
          [self, ticket] {
            if (*self) (*self)->drop(*ticket);
          }};
}

// A hook of the user on the weight itself wants to see its gradient. Once the
// weight's parcel has left, as it may for a layer that is computed again or a
// graph of an earlier pass, backward() computes the gradient: a remainder.
bool FactorReducer::takes_delta(const Ticket& ticket) {
  {
    const std::lock_guard lock(mutex_);
    if (parcel_of_[ticket.product.weight] < next_backward_) return false;
  }
  const auto has_hooks = [&](std::size_t parameter) {
    return !torch::autograd::impl::hooks(parameters_[parameter].tensor).empty();
  };
  const auto& bias = ticket.product.bias;
  return !has_hooks(ticket.product.weight) && !(bias && has_hooks(*bias));
}

// Both must have been called once: then the rows of one are those of the other.
void FactorReducer::after_forward(const std::vector<at::Tensor*>& outputs) {
  std::vector<Seen> seen;  // destroyed without the lock: see drop()
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
    // Layers may come in another order than in the forward() of the plan.
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

// Its call has a place among those of this pass, and its input has left if
// those of the calls around it have.
bool FactorReducer::is_in_time(const Ticket& ticket) const {
  const Block& block = *ticket.block;
  if (ticket.pass != pass_ || ticket.call >= block.calls.size()) return false;
  const Call& call = block.calls[ticket.call];
  return call.number == ticket.number &&
         !(call.is_dropped && ticket.call < block.early);
}

// One that comes after its pass, from a graph that was kept or from an older
// forward(), is a call of this pass.
void FactorReducer::take_delta(const Ticket& ticket, const at::Tensor& given) {
  // One that waits for another backward() may share its memory with a gradient
  // that this one adds to.
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

// Inputs of a forward() that has no backward() are let go. Called by the
// destructor of the product's node, wherever its last owner lets it go.
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

// Calls whose deltas came in passes without exchange wait for its end: more may
// come for them.
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
  // A layer that is computed again has no call until backward() comes to it.
  const auto is_complete = [&](std::size_t weight) {
    const Site& site = sites_[weight];
    return site.deltas == site.calls && site.calls >= plan_.calls[weight];
  };
  for (; next_backward_ < plan_.backward.size(); ++next_backward_) {
    const auto& weights = plan_.backward[next_backward_];
    // The last one lists the remainders, which may come until the end.
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

// What came in the pass is gone, and so is what waited for its parameters;
// what waits for others goes on waiting.
void FactorReducer::discard() noexcept {
  drain();
  std::vector<bool> is_gone(parameters_.size());
  for (std::size_t i = 0; i < sites_.size(); ++i) {
    if (sites_[i].deltas == 0 && !remainders_[i].gradient.defined()) continue;
    is_gone[i] = true;
    for (const auto& block : sites_[i].blocks)
      if (block->key.bias >= 0)
        is_gone[static_cast<std::size_t>(block->key.bias)] = true;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!is_gone[i]) continue;
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    const auto resets = [&](const GradientMark& mark) {
      return mark.is_set() && !mark.is_gone(parameters_[i].tensor) &&
             !mark.has_changed();
    };
    if (resets(sites_[i].mark) || resets(remainders_[i].local))
      gradient.reset();
    remainders_[i] = {};
  }
  clear(is_gone);
}

// Remainders are averaged as ordinary gradients are; they are rare. Gradients
// of earlier passes are equal on all ranks: the average leaves them unchanged.
void FactorReducer::settle() {
  for (const std::size_t i : hooked_) {
    at::Tensor& gradient = parameters_[i].tensor.mutable_grad();
    const Remainder& remainder = remainders_[i];
    if (remainder.gradient.defined()) gradient = remainder.gradient;
    if (anyone_has_[i]) {
      if (!gradient.defined()) gradient = at::zeros_like(parameters_[i].tensor);
      if (remainder.shares_memory) gradient = gradient.clone();
      tensor::all_reduce(group_, gradient, {.op = comm::ReduceOp::kAvg}).wait();
      stats_.bytes += static_cast<std::int64_t>(gradient.nbytes());
    }
    if (!gradients_.is_made(i)) continue;
    if (gradient.defined() && remainder.shares_memory)
      gradient = gradient + gradients_.gradient(i);
    else if (gradient.defined())
      gradient.add_(gradients_.gradient(i));
    else
      gradient = gradients_.gradient(i);
  }
}

void FactorReducer::drain() noexcept {
  try {
    worker_.drain();
  } catch (...) {  // reported already, or of a pass that is discarded
  }
}

void FactorReducer::clear(const std::vector<bool>& is_gone) {
  drain();
  exchange_.forget_pass();
  std::vector<Seen> seen;  // destroyed without the lock: see drop()
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

bool FactorReducer::is_idle() {
  const std::lock_guard lock(mutex_);
  const auto waits = [](const Site& site) { return site.calls > 0; };
  return self_.use_count() == 1 &&  // hooks have the others
         std::none_of(sites_.begin(), sites_.end(), waits) &&
         std::none_of(remainders_.begin(), remainders_.end(),
                      [](const Remainder& one) { return one.is_sent(); });
}

}  // namespace sheaf::parallel

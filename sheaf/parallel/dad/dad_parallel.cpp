#include "sheaf/parallel/dad/dad_parallel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/module_tensors.hpp"
#include "sheaf/parallel/common/parameter_placement.hpp"
#include "sheaf/parallel/common/trained_parameter.hpp"
#include "sheaf/parallel/common/worker.hpp"
#include "sheaf/parallel/common/wrapped_parameters.hpp"
#include "sheaf/parallel/dad/dad_plan.hpp"
#include "sheaf/parallel/dad/dad_settings.hpp"
#include "sheaf/parallel/dad/parameter_use.hpp"
#include "sheaf/parallel/dad/plan_trials.hpp"
#include "sheaf/parallel/data/common_options.hpp"

namespace sheaf::parallel {
struct DadParallelCore::State {
  std::shared_ptr<torch::nn::Module> module;
  // Separate, so that operations of the user cannot interfere.
  comm::Group group;
  comm::Group second;  // for factors, which are exchanged concurrently
  DadOptions options;
  ModuleTensors tensors;
  std::optional<WrappedParameters> wrapped;
  // Weight of this rank's gradients in the average; unset: equal weights.
  std::optional<double> weight;

  std::vector<ParameterUse> uses;
  std::vector<Product> seen;  // in the first forward()
  LinkModel link;
  std::vector<RouteCandidate> candidates;
  PlanTrials trials;
  std::optional<Stopwatch> pass_watch;  // times a pass of the trials
  std::vector<RouteChoice> choices;     // empty: no plan yet
  bool skips_zeros = false;             // of the installed plan
  FactorPlan plan;
  ParameterClaim claim;
  BackwardPass pass;
  std::unique_ptr<Reducer> reducer;  // null if all parameters use factors
  std::unique_ptr<FactorReducer> factors;
  std::unique_ptr<ProductWatch> watch;
  NamedTensors saved;  // kept until the plan has created the sinks
  FixedRoutes fixed;   // to be reused by auto

  // Whether no gradients are kept for the next pass, and no graph of the
  // current plan exists.
  bool is_idle() const {
    return pass.is_syncing() && (!factors || factors->is_idle()) &&
           (!reducer || !reducer->has_local());
  }
  // The exchange's state belongs to the parameters of the old buckets.
  void remove_sinks() {
    const bool has_reducer = reducer != nullptr;
    pass.disconnect();
    reducer.reset();
    factors.reset();
    if (has_reducer && options.exchange) options.exchange->forget();
  }
  void connect() {
    std::vector<GradientSink*> sinks;
    std::vector<BackwardPass::Connection> all;
    const auto add = [&](auto& sink) {
      if (!sink) return;
      sinks.push_back(sink.get());
      const auto more = sink->connections();
      all.insert(all.end(), more.begin(), more.end());
    };
    add(factors);
    add(reducer);
    pass.connect(std::move(sinks), std::move(all));
  }
  bool keeps(const at::Tensor& parameter) const {
    return is_kept(common_options(options), parameter);
  }
  bool can_repeat() const {
    return options.mode == DadMode::kAuto &&
           fixed.by_name.size() == tensors.trained.size() &&
           std::all_of(tensors.trained.begin(), tensors.trained.end(),
                       [&](const auto& one) {
                         return fixed.by_name.contains(one.name);
                       });
  }
};

DadParallelCore::DadParallelCore(std::shared_ptr<torch::nn::Module> module,
                                 const comm::Group& group, DadOptions options)
    : state_(std::make_unique<State>()) {
  SHEAF_CHECK(module, "DadParallel needs a module, got null");
  check(options);
  if (options.device) module->to(*options.device);
  State& state = *state_;
  state.module = module;
  state.options = std::move(options);
  state.group = group.size() == 1 ? group : group.split(0, group.rank());
  if (group.size() > 1) state.second = group.split(0, group.rank());
  auto compared = named(state.options);
  add_kept(common_options(state.options), *module, compared);
  check_same_options(state.group, "DadParallel", compared);
  wrap();
  state.pass.set_before_pass([&state] { state.claim.check(); });
  state.pass.set_after_pass([&state] {
    if (!state.trials.is_over() && state.pass_watch)
      state.trials.add(state.pass_watch->ms());
    state.pass_watch.reset();
  });
}

DadParallelCore::~DadParallelCore() { state_->remove_sinks(); }

// Also called when the module has changed; the next forward() then makes a new
// plan.
void DadParallelCore::wrap() {
  State& state = *state_;
  check_nothing_waits();
  ModuleTensors now = share_tensors(state.group, *state.module, state.tensors);
  std::erase_if(now.trained,
                [&](const auto& one) { return state.keeps(one.tensor); });
  if (!state.wrapped) check_not_empty(now.trained);
  check_same_placement(state.group, state.module->parameters(), "DadParallel");
  if (state.group.size() > 1) state.claim.set(now.trained);
  state.tensors = std::move(now);
  state.wrapped.emplace(*state.module);
  if (state.group.size() == 1) return;
  state.remove_sinks();
  state.choices.clear();
  state.trials = {};
  std::vector<at::Tensor> tensors;
  for (const auto& [name, tensor, is_sparse] : state.tensors.trained)
    tensors.push_back(is_sparse ? at::Tensor() : tensor);
  state.watch = std::make_unique<ProductWatch>(
      tensors, [this](Product product) { see(std::move(product)); });
}

// Called on all ranks, because only some of them may have pending rows.
void DadParallelCore::check_nothing_waits() {
  State& state = *state_;
  if (!state.reducer && !state.factors) return;
  std::vector<int> waiting{(state.reducer && state.reducer->has_local()) ||
                           (state.factors && state.factors->has_local())};
  comm::all_reduce(state.group, waiting, {.name = "pending gradients"}).wait();
  SHEAF_CHECK(waiting[0] == 0,
              "the module has changed while gradients of no_sync() have not "
              "been exchanged yet; change it after a backward() with exchange");
}

void DadParallelCore::before_forward(std::optional<std::int64_t> rows) {
  State& state = *state_;
  if (!state.watch) return;
  stop_watching();  // in case the last forward() threw
  state.pass.discard_broken();
  if (const auto changed = state.wrapped->find_change(*state.module)) {
    agree_on_change(state.group, *changed);
    wrap();
  }
  state.claim.check();
  if (state.factors) state.factors->forget_reset_gradients();
  if (at::GradMode::is_enabled() && state.pass.is_syncing() &&
      !state.trials.is_over())
    go_on_with_trials();
  if (state.reducer && state.pass.is_syncing()) state.reducer->before_forward();
  if (state.pass.is_syncing() && state.options.broadcast_buffers &&
      !state.tensors.buffers.empty())
    state.tensors.buffers.broadcast(state.group);
  state.tensors.buffers.begin_forward();
  state.weight.reset();
  if (!at::GradMode::is_enabled()) return;
  if (rows && state.options.average == Average::kRows) {
    // The sum of squares shows on all ranks whether the numbers of rows differ.
    std::vector<std::int64_t> total{*rows, *rows * *rows};
    comm::all_reduce(state.group, total, {.name = "rows"}).wait();
    if (total[1] * state.group.size() != total[0] * total[0])
      state.weight = static_cast<double>(*rows) * state.group.size() /
                     static_cast<double>(total[0]);
  }
  if (state.factors || state.choices.empty()) state.watch->start();
}

bool DadParallelCore::weighs(
    const std::vector<const at::Tensor*>& inputs) const {
  return state_->weight && at::GradMode::is_enabled() &&
         std::any_of(inputs.begin(), inputs.end(), [](const at::Tensor* one) {
           return one->defined() && one->requires_grad();
         });
}

double DadParallelCore::weight() const { return state_->weight.value_or(1); }

void DadParallelCore::stop_watching() {
  if (!state_->watch) return;
  state_->watch->stop();
  state_->seen.clear();
}

void DadParallelCore::after_forward(const std::vector<at::Tensor*>& outputs) {
  State& state = *state_;
  if (!state.watch) return;
  state.tensors.buffers.end_forward();
  state.watch->stop();
  for (at::Tensor* output : outputs)
    if (state.weight && output->defined() && output->requires_grad())
      *output = weighted_output(*output, *state.weight);
  if (!at::GradMode::is_enabled()) return;
  state.pass.watch(outputs);
  if (state.factors) state.factors->after_forward(outputs);
  if (!state.choices.empty() || state.tensors.trained.empty()) return;
  state.uses = share_uses(
      state.group, find_uses(state.tensors.trained, state.seen, outputs));
  make_plan();
  for (const Product& product : std::exchange(state.seen, {}))
    if (state.factors && state.factors->takes(product.weight))
      state.factors->add(product);
  if (state.factors) state.factors->after_forward(outputs);
}

void DadParallelCore::see(Product product) {
  State& state = *state_;
  if (state.factors) {
    if (state.factors->takes(product.weight)) state.factors->add(product);
    return;
  }
  state.seen.push_back(std::move(product));
}

void DadParallelCore::make_plan() {
  State& state = *state_;
  if (state.can_repeat()) {
    RouteSettings settings =
        route_settings(state.options, state.fixed.skips_zeros);
    settings.mode = DadMode::kDad;
    settings.planned = state.fixed.by_name;
    state.candidates = route_candidates(state.uses, settings, state.link);
    state.candidates.resize(1);
    return install(state.candidates[0]);
  }
  state.link = state.options.link
                   ? *state.options.link
                   : measure_link(state.second, state.options.where);
  if (!state.options.link)
    state.link.is_overlapping =
        should_overlap(state.options.overlap, state.second);
  const bool skips = skips_zeros(state.options, state.link);
  const auto with = [&](bool skips_zeros) {
    return route_candidates(
        state.uses, route_settings(state.options, skips_zeros), state.link);
  };
  state.candidates = with(skips);
  if (state.options.mode == DadMode::kAuto &&
      state.options.has_trials.value_or(!state.options.link)) {
    if (!state.options.skips_zeros)
      state.candidates = best_of(std::move(state.candidates), with(!skips));
    if (state.candidates.size() > 1)
      state.trials = PlanTrials(state.candidates.size(),
                                passes_for(state.candidates[0].predicted_ms));
  }
  install(state.candidates[0]);
  if (state.group.rank() == 0)
    log_info("gradient routes:\n{}", describe_routes());
}

void DadParallelCore::install(const RouteCandidate& candidate) {
  State& state = *state_;
  state.remove_sinks();
  state.choices = candidate.choices;
  state.skips_zeros = candidate.skips_zeros;
  state.plan = plan_factors(state.uses, state.choices, state.group.size(),
                            state.options.parcel_bytes);
  std::vector<TrainedParameter> ordinary;
  for (std::size_t i = 0; i < state.tensors.trained.size(); ++i)
    if (state.choices[i].route == Route::kGradient && !state.plan.is_bias[i])
      ordinary.push_back(state.tensors.trained[i]);
  if (!ordinary.empty())
    state.reducer = std::make_unique<Reducer>(ordinary, state.group,
                                              reducer_options(state.options));
  if (!state.plan.backward.empty())
    state.factors = std::make_unique<FactorReducer>(
        state.tensors.trained, state.second, state.plan,
        factor_options(state.options, candidate.skips_zeros), state.pass);
  load_saved();
  state.connect();
}

// The plan changes between passes, when no graph of the old plan exists. If a
// graph is never released, the first plan stays.
void DadParallelCore::go_on_with_trials() {
  State& state = *state_;
  if (state.trials.is_turn_over()) {
    if (is_idle_everywhere()) {
      state.trials.next_turn();
      if (state.trials.is_over()) return end_trials();
      install(state.candidates[state.trials.plan()]);
    } else if (state.trials.plan() == 0) {
      state.trials.give_up();
      return;
    }
  }
  state.pass_watch.emplace();
}

bool DadParallelCore::is_idle_everywhere() const {
  std::vector<int> busy{state_->is_idle() ? 0 : 1};
  comm::all_reduce(state_->group, busy, {.name = "busy"}).wait();
  return busy[0] == 0;
}

// Ends running trials with the best plan so far, or with the installed plan if
// it cannot be replaced.
void DadParallelCore::decide() const {
  State& state = *state_;
  if (state.trials.is_over()) return;
  if (is_idle_everywhere()) const_cast<DadParallelCore*>(this)->end_trials();
  state.trials.give_up();
}

void DadParallelCore::end_trials() {
  State& state = *state_;
  std::vector<double> ms = state.trials.median_ms();
  comm::all_reduce(state.group, ms,
                   {.op = comm::ReduceOp::kMax, .name = "times of plans"})
      .wait();
  const std::size_t best = fastest_plan(ms);
  install(state.candidates[best]);
  if (state.group.rank() != 0) return;
  std::string text;
  for (std::size_t i = 0; i < ms.size(); ++i)
    text += fmt::format("{}{}: {:.2f} ms", i ? ", " : "",
                        state.candidates[i].name, ms[i]);
  log_info("gradient routes, measured ({}); keeping {}:\n{}", text,
           state.candidates[best].name, describe_routes());
}

std::vector<DadRoute> DadParallelCore::routes() const {
  const State& state = *state_;
  std::vector<DadRoute> list;
  for (std::size_t i = 0; i < state.choices.size(); ++i) {
    const RouteChoice& choice = state.choices[i];
    DadRoute route{state.tensors.trained[i].name,
                   name_of(choice.route),
                   choice.reason,
                   state.uses[i].in,
                   state.uses[i].out,
                   {}};
    if (state.plan.is_bias[i]) {
      route.route = "with its weight";
      route.reason = "the sum of the deltas";
    }
    if (choice.route == Route::kEdad && state.factors) {
      const auto from = state.factors->source_of(i);
      route.reason =
          from ? "delta computed from that of " +
                     state.tensors.trained[*from].name
               : "delta sent: it cannot be derived from the layer above";
    }
    if (state.factors) route.last = state.factors->stats_of(i);
    list.push_back(std::move(route));
  }
  return list;
}

std::string DadParallelCore::describe_routes() const {
  std::size_t width = 0;
  for (const DadRoute& route : routes())
    width = std::max(width, route.name.size());
  std::string text;
  for (const DadRoute& route : routes())
    text += fmt::format("  {:<{}}  {:<15}  {}\n", route.name, width,
                        route.route, route.reason);
  return text;
}

void DadParallelCore::share_buffers() {
  if (state_->watch) state_->tensors.buffers.broadcast(state_->group);
}

void DadParallelCore::check_weights() const {
  check_same_weights(state_->group, state_->tensors, state_->options.kept);
}

ExchangeStats DadParallelCore::stats() const {
  ExchangeStats sum;
  const auto add = [&](const ExchangeStats& one) {
    sum.exchange_ms += one.exchange_ms;
    sum.wait_ms += one.wait_ms;
    sum.gradient_ms += one.gradient_ms;
    sum.bytes += one.bytes;
    sum.buckets += one.buckets;
    sum.passes = std::max(sum.passes, one.passes);
  };
  if (state_->reducer) add(state_->reducer->stats());
  if (state_->factors) add(state_->factors->stats());
  return sum;
}

void DadParallelCore::reset_stats() {
  if (state_->reducer) state_->reducer->reset_stats();
  if (state_->factors) state_->factors->reset_stats();
}

NamedTensors DadParallelCore::gather_state() const {
  decide();
  const State& state = *state_;
  NamedTensors list = state.saved;
  const auto add = [&](const NamedTensors& more) {
    list.insert(list.end(), more.begin(), more.end());
  };
  if (state.factors) add(state.factors->gather_feedback());
  if (state.reducer)
    add(gather_exchange_state(state.group, state.options.exchange.get()));
  if (!state.choices.empty())
    add(state_of(fixed_routes()));
  else if (routes_in(list).empty())
    add(state_of(state.fixed));
  return list;
}

void DadParallelCore::load_state(const NamedTensors& saved) {
  fix_routes(routes_in(saved));
  state_->saved = saved;
  if (!state_->choices.empty()) load_saved();
}

// Called when the sinks exist.
void DadParallelCore::load_saved() {
  State& state = *state_;
  const NamedTensors saved = std::exchange(state.saved, {});
  if (state.factors) state.factors->load_feedback(saved);
  if (state.reducer)
    load_exchange_state(state.group, state.options.exchange.get(), saved);
}

FixedRoutes DadParallelCore::fixed_routes() const {
  const State& state = *state_;
  FixedRoutes fixed;
  if (state.options.mode != DadMode::kAuto || is_trying()) return fixed;
  for (std::size_t i = 0; i < state.choices.size(); ++i)
    fixed.by_name[state.tensors.trained[i].name] = state.choices[i].route;
  fixed.skips_zeros = state.skips_zeros;
  return fixed;
}

void DadParallelCore::fix_routes(FixedRoutes routes) {
  if (!routes.empty()) state_->fixed = std::move(routes);
}

const comm::Group& DadParallelCore::group() const { return state_->group; }

const std::optional<torch::Device>& DadParallelCore::device() const {
  return state_->options.device;
}

bool DadParallelCore::is_trying() const { return !state_->trials.is_over(); }

bool DadParallelCore::is_syncing() const { return state_->pass.is_syncing(); }

void DadParallelCore::set_sync(bool is_on) { state_->pass.set_sync(is_on); }

}  // namespace sheaf::parallel

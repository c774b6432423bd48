#include "sheaf/parallel/dad/dad_parallel.hpp"

#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/base/log.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/parallel/common/module_tensors.hpp"
#include "sheaf/parallel/common/parameter_claim.hpp"
#include "sheaf/parallel/common/parameter_placement.hpp"
#include "sheaf/parallel/common/wrapped_parameters.hpp"
#include "sheaf/parallel/dad/link_probe.hpp"
#include "sheaf/parallel/dad/parameter_use.hpp"
#include "sheaf/parallel/dad/plan_trials.hpp"

namespace sheaf::parallel {
namespace {

// A gradient times a number. Gradients of it pass as they are: see
// ScaleGradient.
struct ScaleOnce : torch::autograd::Function<ScaleOnce> {
  static at::Tensor forward(torch::autograd::AutogradContext* /*context*/,
                            const at::Tensor& gradient, double scale) {
    return gradient * scale;
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* /*context*/,
      torch::autograd::variable_list gradients) {
    return {gradients[0], {}};
  }
};

// The same values; their gradient is multiplied. A module between a factor w on
// its outputs and 1/w on its inputs has gradients of parameters times w, while
// what comes out of it is what came in would give without. With create_graph,
// gradients of gradients enter the module through its inputs and leave it
// through its outputs; its parameters have a factor w there already, for they
// are multiplied with gradients inside.
struct ScaleGradient : torch::autograd::Function<ScaleGradient> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, double scale) {
    context->saved_data["scale"] = scale;
    return x.clone();  // which may be changed in place
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      torch::autograd::variable_list gradients) {
    const double scale = context->saved_data["scale"].toDouble();
    return {scale == 1 ? gradients[0] : ScaleOnce::apply(gradients[0], scale),
            {}};
  }
};

// Half of the bytes are saved where half of the elements are zeros.
bool skips_zeros(const DadOptions& options, const LinkModel& link) {
  return options.skips_zeros.value_or(0.5 / link.gather_bytes_per_s >
                                      1 / link.skip_bytes_per_s);
}

RouteWishes wishes_of(const DadOptions& options, bool skips_zeros) {
  return {.mode = options.mode,
          .rank = options.rank,
          .allows_low_rank = options.allows_low_rank,
          .skips_zeros = skips_zeros,
          .first_layer_gradient = options.first_layer_gradient,
          .by_name = options.routes,
          .planned = options.planned,
          .parcel_bytes = options.parcel_bytes};
}

FactorOptions factor_options(const DadOptions& options, bool skips_zeros) {
  return {
      .exchange = {.where = options.where,
                   .wire = {options.wire, skips_zeros},
                   .low_rank = {.rank = options.rank,
                                .tolerance = options.tolerance,
                                .feedback_rows = options.feedback_rows,
                                .power_iterations = options.power_iterations},
                   .is_two_way = options.is_two_way},
      .overlap = options.overlap,
      .trace = options.trace};
}

void check(const DadOptions& options) {
  SHEAF_CHECK(options.rank >= 1, "rank ", options.rank, " must be at least 1");
  SHEAF_CHECK(options.tolerance >= 0 && options.tolerance < 1, "tolerance ",
              options.tolerance, " must be from 0 to below 1");
  SHEAF_CHECK(options.feedback_rows >= 0 && options.power_iterations >= 0,
              "feedback_rows and power_iterations must not be negative");
  SHEAF_CHECK(!options.is_two_way || options.where == Where::kStar,
              "two-way rank-dad needs a root that makes the sum one of low "
              "rank; give where = star as well");
  SHEAF_CHECK(!options.wire || *options.wire == at::kHalf ||
                  *options.wire == at::kBFloat16,
              "factors can travel as f16, bf16 or as they are");
}

template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? concat(*value) : "open";
}

std::string text_of(const std::map<std::string, Route>& routes) {
  std::string text;
  for (const auto& [name, route] : routes)
    text += concat(text.empty() ? "" : ", ", name, ": ", name_of(route));
  return text.empty() ? "none" : text;
}

// Those that decide what ranks exchange, and how it is read.
std::vector<NamedOption> named(const DadOptions& options) {
  constexpr const char* kModes[] = {"dad", "edad", "rank-dad", "auto"};
  return {
      {"mode", kModes[static_cast<std::size_t>(options.mode)]},
      {"rank", concat(options.rank)},
      {"tolerance", concat(options.tolerance)},
      {"feedback_rows", concat(options.feedback_rows)},
      {"power_iterations", concat(options.power_iterations)},
      {"allows_low_rank", concat(options.allows_low_rank)},
      {"where", options.where == Where::kStar ? "star" : "all-gather"},
      {"is_two_way", concat(options.is_two_way)},
      {"wire", text_of(options.wire)},
      {"skips_zeros", text_of(options.skips_zeros)},
      {"first_layer_gradient", concat(options.first_layer_gradient)},
      {"routes", text_of(options.routes)},
      {"planned", text_of(options.planned)},
      {"exchange", options.exchange ? "given" : "none"},
      {"link", options.link ? "given" : "measured"},
      {"has_trials", text_of(options.has_trials)},
      {"average", options.average == Average::kRows ? "rows" : "ranks"},
      {"broadcast_buffers", concat(options.broadcast_buffers)},
      {"find_unused_parameters", concat(options.find_unused_parameters)},
      {"bucket_mb", concat(options.bucket_mb)},
      {"parcel_bytes", concat(options.parcel_bytes)},
  };
}

}  // namespace

struct DadParallelCore::State {
  std::shared_ptr<torch::nn::Module> module;
  comm::Group group;   // our own: users' operations do not come between
  comm::Group second;  // for factors, at the same time
  DadOptions options;
  ModuleTensors tensors;
  std::optional<WrappedParameters> wrapped;
  // Of this rank's gradients in the average of ranks; none: all count alike.
  std::optional<double> weight;

  std::vector<ParameterUse> uses;
  std::vector<Product> seen;  // of the first forward()
  LinkModel link;
  std::vector<RouteCandidate> candidates;
  PlanTrials trials;
  std::optional<Stopwatch> pass_watch;  // of a pass that counts for them
  std::vector<RouteChoice> choices;     // empty: not planned
  bool skips_zeros = false;             // of the plan that is installed
  FactorPlan plan;
  ParameterClaim claim;
  BackwardPass pass;
  std::unique_ptr<Reducer> reducer;  // none where all take factors
  std::unique_ptr<FactorReducer> factors;
  std::unique_ptr<ProductWatch> watch;
  NamedTensors saved;  // for sinks, which come with the plan
  FixedRoutes fixed;   // to be repeated by auto

  ReducerOptions reducer_options() const {
    constexpr double kMiB = 1 << 20;
    const auto cap = static_cast<std::size_t>(options.bucket_mb * kMiB);
    return {.caps = {std::min<std::size_t>(cap, 1 << 20), cap},
            .find_unused_parameters = options.find_unused_parameters,
            .overlap = options.overlap,
            .exchange = options.exchange,
            .trace = options.trace};
  }
  // Nothing waits for a pass, and no graph is left that belongs to the plan.
  bool is_idle() const {
    return pass.is_syncing() && (!factors || factors->is_idle()) &&
           (!reducer || !reducer->has_local());
  }
  // What the exchange of buckets remembers belongs to the old ones' parameters.
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
  SHEAF_CHECK(module, "no module was given to DadParallel");
  check(options);
  State& state = *state_;
  state.module = module;
  state.options = std::move(options);
  state.group = group.size() == 1 ? group : group.split(0, group.rank());
  if (group.size() > 1) state.second = group.split(0, group.rank());
  check_same_options(state.group, "DadParallel", named(state.options));
  wrap();
  state.pass.set_before_pass([&state] { state.claim.check(); });
  state.pass.set_after_pass([&state] {
    if (!state.trials.is_over() && state.pass_watch)
      state.trials.add(state.pass_watch->ms());
    state.pass_watch.reset();
  });
}

DadParallelCore::~DadParallelCore() { state_->remove_sinks(); }

// Also when the module has changed: then the next forward() makes a new plan.
void DadParallelCore::wrap() {
  State& state = *state_;
  check_nothing_waits();
  ModuleTensors now = share_tensors(state.group, *state.module, state.tensors);
  if (!state.wrapped) check_not_empty(now.trained);
  check_like_homes(state.group, state.module->parameters(), "DadParallel");
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

// On all ranks, for rows may wait on some only.
void DadParallelCore::check_nothing_waits() {
  State& state = *state_;
  if (!state.reducer && !state.factors) return;
  std::vector<int> waiting{(state.reducer && state.reducer->has_local()) ||
                           (state.factors && state.factors->has_local())};
  comm::all_reduce(state.group, waiting, {.name = "gradients that wait"})
      .wait();
  SHEAF_CHECK(waiting[0] == 0,
              "the module has changed while gradients of no_sync() wait for "
              "their exchange; change it after a backward() with exchange");
}

void DadParallelCore::before_forward(std::optional<std::int64_t> rows) {
  State& state = *state_;
  if (!state.watch) return;
  stop_watching();  // of a forward() that threw
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
    // Their squares tell all ranks alike whether some have more rows.
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

// Where this rank has no rows, nothing comes back.
void DadParallelCore::Unweighted::take(const std::vector<at::Tensor*>& inputs,
                                       double weight) {
  for (at::Tensor* const input : inputs) {
    if (!input->defined() || !input->requires_grad()) continue;
    Pair& pair = pairs_.emplace_back();
    pair.given = *input;
    *input = ScaleGradient::apply(*input, weight > 0 ? 1 / weight : 0.);
    pair.used = *input;
    pair.version = input->_version();
  }
}

void DadParallelCore::Unweighted::give_back(
    const std::vector<at::Tensor*>& inputs) const {
  for (const Pair& pair : pairs_)
    SHEAF_CHECK(pair.used._version() == pair.version,
                "the module changes a tensor that is given to forward() in "
                "place, while ranks with unequal numbers of rows are weighted; "
                "let it change a copy, or use Average::kRanks");
  for (at::Tensor* const input : inputs)
    for (const Pair& pair : pairs_)
      if (input->is_same(pair.used)) *input = pair.given;
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
      *output = ScaleGradient::apply(*output, *state.weight);
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
    RouteWishes wishes = wishes_of(state.options, state.fixed.skips_zeros);
    wishes.mode = DadMode::kDad;
    wishes.planned = state.fixed.by_name;
    state.candidates = route_candidates(state.uses, wishes, state.link);
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
    return route_candidates(state.uses, wishes_of(state.options, skips_zeros),
                            state.link);
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
    log_info("routes of gradients:\n{}", describe_routes());
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
                                              state.reducer_options());
  if (!state.plan.backward.empty())
    state.factors = std::make_unique<FactorReducer>(
        state.tensors.trained, state.second, state.plan,
        factor_options(state.options, candidate.skips_zeros), state.pass);
  load_saved();
  state.connect();
}

// Plans change between passes, when no graph is left that belongs to the old
// one; with a graph that is never given up, the first plan stays.
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

// Trials that are under way end with the best plan so far, or with the one that
// is installed where it cannot be changed.
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
  log_info("routes of gradients, measured ({}); keeping {}:\n{}", text,
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
      route.reason = from ? "delta computed from that of " +
                                state.tensors.trained[*from].name
                          : "delta sent: above it is no plain layer";
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
  NamedTensors all = state_->tensors.parameters;
  const NamedTensors buffers = state_->tensors.buffers.shared(state_->group);
  all.insert(all.end(), buffers.begin(), buffers.end());
  check_same_bits(state_->group, all);
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

// Once there are sinks to give it to.
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

bool DadParallelCore::is_trying() const { return !state_->trials.is_over(); }

bool DadParallelCore::is_syncing() const { return state_->pass.is_syncing(); }

void DadParallelCore::set_sync(bool is_on) { state_->pass.set_sync(is_on); }

}  // namespace sheaf::parallel

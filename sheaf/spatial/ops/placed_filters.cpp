#include "sheaf/spatial/ops/placed_filters.hpp"

#include <torch/torch.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/nn/locally_connected.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"
#include "sheaf/tensor/groups/collectives.hpp"

namespace sheaf::spatial {

NamedTensors local_filters(torch::nn::Module& module) {
  std::vector<const c10::TensorImpl*> weights;
  for (const auto& child : module.modules())
    if (auto* local = child->as<nn::LocallyConnected2dImpl>())
      weights.push_back(local->weight.unsafeGetTensorImpl());
  NamedTensors filters;
  bool has_others = false;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    const bool is_local =
        std::find(weights.begin(), weights.end(),
                  item.value().unsafeGetTensorImpl()) != weights.end();
    if (is_local) filters.emplace_back(item.key(), item.value());
    has_others = has_others || !is_local;
  }
  // The exchange of the other parameters detects the start of a pass.
  return has_others ? filters : NamedTensors{};
}

PlacedFilters::PlacedFilters(NamedTensors filters, std::shared_ptr<Tiles> tiles,
                             const comm::Group& group)
    : filters_(std::move(filters)),
      tiles_(std::move(tiles)),
      group_(group.split(0, group.rank())),
      same_place_(group.split(tiles_->rank(), group.rank())) {
  for (const auto& [name, parameter] : filters_) tiles_->own_places(parameter);
}

bool PlacedFilters::has(const at::Tensor& parameter) const {
  return std::any_of(filters_.begin(), filters_.end(), [&](const auto& entry) {
    return entry.second.is_same(parameter);
  });
}

bool PlacedFilters::has_places(const at::Tensor& parameter) const {
  return tiles_->ownership(parameter)->is_known;
}

Split PlacedFilters::split_of(const at::Tensor& parameter) const {
  const Ownership& owned = *tiles_->ownership(parameter);
  return {tiles_, parameter.sizes().vec(), owned.cut_axes, owned.layout};
}

at::Tensor PlacedFilters::own_places(const at::Tensor& parameter,
                                     const at::Tensor& tensor) const {
  return own_part(tensor, split_of(parameter));
}

namespace {

// The cut axes plus 1 and all cut positions; zeros if they are not known.
std::vector<std::int64_t> numbers_of(const Ownership& owned,
                                     const halo::Grid& grid) {
  std::vector<std::int64_t> numbers;
  for (int i = 0; i < grid.axes(); ++i) {
    std::vector<std::int64_t> cuts(static_cast<std::size_t>(grid.size(i)) + 1);
    if (owned.is_known) cuts = owned.layout.cuts(i).positions();
    numbers.push_back(
        owned.is_known ? owned.cut_axes[static_cast<std::size_t>(i)] + 1 : 0);
    numbers.insert(numbers.end(), cuts.begin(), cuts.end());
  }
  return numbers;
}

Ownership ownership_of(const std::int64_t*& numbers, const halo::Grid& grid) {
  Ownership owned;
  std::vector<halo::Cuts> cuts;
  for (int i = 0; i < grid.axes(); ++i) {
    owned.cut_axes.push_back(static_cast<int>(*numbers++) - 1);
    owned.is_known = owned.is_known || owned.cut_axes.back() >= 0;
    const std::int64_t* end = numbers + grid.size(i) + 1;
    cuts.emplace_back(std::vector<std::int64_t>(numbers, end));
    numbers = end;
  }
  owned.layout = halo::Tiling(grid, std::move(cuts));
  return owned;
}

}  // namespace

// A rank that has had no examples so far has not used the filters.
void PlacedFilters::share_places() {
  const halo::Grid& grid = tiles_->grid();
  std::vector<std::int64_t> all;
  for (const auto& [name, parameter] : filters_)
    for (const std::int64_t number :
         numbers_of(*tiles_->ownership(parameter), grid))
      all.push_back(number);
  comm::all_reduce(group_, all,
                   {.op = comm::ReduceOp::kMax, .name = "places of filters"})
      .wait();
  const std::int64_t* numbers = all.data();
  for (const auto& [name, parameter] : filters_)
    if (Ownership owned = ownership_of(numbers, grid); owned.is_known)
      *tiles_->ownership(parameter) = std::move(owned);
}

// A nonzero gradient outside the positions that this rank owns, or without
// known positions, comes from a use outside the layer.
PlacedFilters::Use PlacedFilters::use_of(const at::Tensor& parameter) const {
  const at::Tensor& gradient = parameter.grad();
  if (!gradient.defined()) return Use::kNone;
  const std::int64_t all = gradient.count_nonzero().item<std::int64_t>();
  if (all == 0) return Use::kNone;
  if (!has_places(parameter)) return Use::kOther;
  const auto own =
      own_places(parameter, gradient).count_nonzero().item<std::int64_t>();
  return own == all ? Use::kLayer : Use::kOther;
}

// Repeated until each parameter has been used correctly by some rank.
void PlacedFilters::check_use() {
  std::vector<std::int64_t> uses;
  for (const auto& [name, parameter] : filters_)
    uses.push_back(static_cast<std::int64_t>(use_of(parameter)));
  comm::all_reduce(group_, uses,
                   {.op = comm::ReduceOp::kMax, .name = "use of filters"})
      .wait();
  is_checked_ = true;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    SHEAF_CHECK(uses[i] != static_cast<std::int64_t>(Use::kOther),
                "the weight ", filters_[i].first,
                " has a gradient from outside its locally connected layer, "
                "but each rank trains only the positions that it owns; use "
                "it only in that layer, or set "
                "SpatialOptions::owns_filters to false");
    if (uses[i] == static_cast<std::int64_t>(Use::kNone)) is_checked_ = false;
  }
}

void PlacedFilters::end_pass() {
  const at::NoGradGuard no_grad;
  if (!is_checked_) {
    share_places();
    check_use();
  }
  if (same_place_.size() == 1) return;
  for (const auto& [name, parameter] : filters_) {
    if (!has_places(parameter)) continue;
    at::Tensor gradient = parameter.grad();
    if (!gradient.defined()) gradient = at::zeros_like(parameter);
    const at::Tensor mine = own_places(parameter, gradient);
    const at::Tensor sum = mine.contiguous();
    tensor::all_reduce(same_place_, sum,
                       {.op = comm::ReduceOp::kAvg, .name = name})
        .wait();
    mine.copy_(sum);
    at::Tensor(parameter).mutable_grad() = gradient;
  }
}

at::Tensor PlacedFilters::gather(const at::Tensor& parameter,
                                 const at::Tensor& own) const {
  const at::NoGradGuard no_grad;
  if (!has_places(parameter)) return own;
  return gather_parts(own_places(parameter, own), split_of(parameter));
}

void PlacedFilters::gather_weights() {
  const at::NoGradGuard no_grad;
  for (auto& [name, parameter] : filters_)
    parameter.copy_(gather(parameter, parameter));
}

double PlacedFilters::square_of_gradients() const {
  std::vector<double> square{0};
  for (const auto& [name, parameter] : filters_) {
    if (!parameter.grad().defined()) continue;
    const double norm = parameter.grad().norm().item<double>();
    square[0] += norm * norm;
  }
  comm::all_reduce(tiles_->group(), square, {.name = "norm of filters"}).wait();
  return square[0];
}

void PlacedFilters::check_weights() const {
  NamedTensors own;
  for (const auto& [name, parameter] : filters_)
    own.emplace_back(name, has_places(parameter)
                               ? own_places(parameter, parameter).contiguous()
                               : parameter);
  parallel::check_same_bits(same_place_, own);
}

}  // namespace sheaf::spatial

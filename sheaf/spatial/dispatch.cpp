#include "sheaf/spatial/dispatch.hpp"

#include <torch/library.h>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/notes.hpp"
#include "sheaf/spatial/parts.hpp"

namespace sheaf::spatial {
namespace {

constexpr auto kDispatchKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;

const Operations& operations() {
  static const Operations table = [] {
    Operations all;
    add_pointwise_operations(all);
    add_shape_operations(all);
    add_window_operations(all);
    add_adaptive_operations(all);
    add_local_operations(all);
    add_resize_operations(all);
    add_norm_operations(all);
    add_reduce_operations(all);
    add_loss_operations(all);
    add_linear_operations(all);
    add_dropout_operations(all);
    return all;
  }();
  return table;
}

at::Tensor any_split(Call& call) {
  for (std::size_t i = 0; i < call.count(); ++i) {
    if (const at::Tensor given = call.tensor(i); is_split(given)) return given;
    if (call[i].isTensorList())
      for (const at::Tensor& one : call[i].toTensorVector())
        if (is_split(one)) return one;
  }
  return {};
}

// Neighbours may still be reading what the operation is to write.
void wait_for_readers(Call& call, Tiles& tiles) {
  if (tiles.lent().is_empty()) return;
  const auto& arguments = call.op().schema().arguments();
  for (std::size_t i = 0; i < call.count(); ++i)
    if (const auto* alias = arguments[i].alias_info();
        alias && alias->isWrite())
      if (const at::Tensor given = call.tensor(i); is_split(given))
        tiles.lent().wait_for(local_of(given));
}

void carry_out(Call& call, Operation operation) {
  const CallName name(call);
  const at::Tensor given = any_split(call);
  if (!given.defined()) return operation(call);
  const std::shared_ptr<Tiles> tiles = split_of(given).tiles;
  wait_for_readers(call, *tiles);
  const TileMemory::Use use(tiles->memory());
  operation(call);
}

// Operations that libtorch makes of others are taken apart, and their parts
// come here again.
void on_operation(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  Call call(op, *stack);
  const auto found = operations().find(call.name());
  if (found != operations().end()) {
    carry_out(call, found->second);
  } else if (op.hasKernelForDispatchKey(
                 c10::DispatchKey::CompositeImplicitAutograd)) {
    op.redispatchBoxed(keys.remove(kDispatchKey), stack);
  } else {
    call.refuse("there is no rule for it");
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&on_operation>());
}

void use_split_operations() {}

at::Tensor Call::tensor(std::size_t i) {
  const c10::IValue& value = (*this)[i];
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

std::vector<std::int64_t> Call::integers(std::size_t i, std::size_t count) {
  const c10::IValue& value = (*this)[i];
  std::vector<std::int64_t> list;
  if (value.isInt()) list = {value.toInt()};
  if (value.isIntList()) list = value.toIntVector();
  if (list.size() == 1) list.resize(count, list[0]);
  return list;
}

void Call::give(c10::IValue result) {
  torch::jit::drop(stack_, count_);
  torch::jit::push(stack_, std::move(result));
}

void Call::give(c10::IValue first, c10::IValue second) {
  give(std::move(first));
  torch::jit::push(stack_, std::move(second));
}

void Call::refuse(const std::string& reason) {
  std::string shapes;
  for (std::size_t i = 0; i < count_; ++i)
    if (const at::Tensor given = tensor(i); is_split(given))
      shapes += concat(shapes.empty() ? "" : " and ", split_of(given).text());
  throw UsageError(concat(name(), " on a tensor that is split over ranks (",
                          shapes, "): ", reason,
                          "; gather the tensor first (sheaf::spatial::gather), "
                          "or keep this part of the network out of the split"));
}

at::Tensor first_split(Call& call) {
  const at::Tensor given = any_split(call);
  if (!given.defined()) call.refuse("none of its tensors is split");
  return given;
}

at::Tensor recut(const at::Tensor& local, const Split& from, const Split& to) {
  if (from.layout == to.layout) return local;
  Needs needs;
  for (int rank = 0; rank < to.layout.ranks(); ++rank) {
    auto& of_rank = needs.emplace_back();
    for (int axis = 0; axis < to.layout.axes(); ++axis)
      of_rank.push_back({to.layout.box_of(rank)[axis], 0, 0});
  }
  return with_halo(local, from, needs);
}

at::Tensor part_like(Call& call, const at::Tensor& given, const Split& split) {
  if (!given.defined()) return given;
  const auto axes = static_cast<std::int64_t>(split.sizes.size());
  if (is_split(given)) {
    const Split& other = split_of(given);
    const auto shift = axes - static_cast<std::int64_t>(other.sizes.size());
    if (other.tiles != split.tiles)
      call.refuse("its tensors are split over different ranks");
    for (std::size_t i = 0; i < split.cut_axes.size(); ++i)
      if (other.cut_axes[i] + shift != split.cut_axes[i])
        call.refuse("its tensors are cut along different axes");
    for (std::size_t i = 0; i < split.cut_axes.size(); ++i)
      if (other.layout.cuts(static_cast<int>(i)).size() !=
          split.layout.cuts(static_cast<int>(i)).size())
        call.refuse("its tensors have different sizes along a cut axis");
    return recut(local_of(given), other, split);
  }
  at::Tensor part = given;
  const std::int64_t shift = axes - given.dim();
  for (const std::int64_t cut : split.cut_axes) {
    const std::int64_t axis = cut - shift;
    if (cut < 0 || axis < 0 || given.size(axis) == 1) continue;
    const halo::Interval interval = split.interval(cut);
    if (given.size(axis) != split.sizes[static_cast<std::size_t>(cut)])
      call.refuse(concat("a tensor of ", given.size(axis),
                         " along a cut axis does not go with it"));
    part = part.narrow(axis, interval.begin, interval.size());
  }
  return part;
}

Split split_like(const Split& split, const at::Tensor& local) {
  Split result = split;
  const auto shift =
      static_cast<int>(local.dim()) - static_cast<int>(split.sizes.size());
  result.sizes = local.sizes().vec();
  for (std::size_t i = 0; i < result.cut_axes.size(); ++i) {
    if (result.cut_axes[i] < 0) continue;
    result.cut_axes[i] += shift;
    result.sizes[static_cast<std::size_t>(result.cut_axes[i])] =
        result.layout.cuts(static_cast<int>(i)).size();
  }
  return result;
}

std::int64_t front_axis(std::int64_t axis, std::int64_t axes) {
  return axis < 0 ? axis + axes : axis;
}

}  // namespace sheaf::spatial

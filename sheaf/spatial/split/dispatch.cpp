#include "sheaf/spatial/split/dispatch.hpp"

#include <torch/library.h>

#include <algorithm>

#include "sheaf/base/error.hpp"
#include "sheaf/spatial/split/halo_autograd.hpp"
#include "sheaf/spatial/split/notes.hpp"

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

template <class Visit>
void for_each_split(Call& call, Visit visit) {
  for (std::size_t i = 0; i < call.count(); ++i) {
    if (const at::Tensor given = call.tensor(i); is_split(given)) visit(given);
    if (call[i].isTensorList())
      for (const at::Tensor& one : call[i].toTensorVector())
        if (is_split(one)) visit(one);
  }
}

at::Tensor any_split(Call& call) {
  at::Tensor first;
  for_each_split(call, [&](const at::Tensor& given) {
    if (!first.defined()) first = given;
  });
  return first;
}

std::vector<at::Tensor> written_by(Call& call) {
  std::vector<at::Tensor> written;
  const auto& arguments = call.op().schema().arguments();
  for (std::size_t i = 0; i < call.count(); ++i)
    if (const auto* alias = arguments[i].alias_info();
        alias && alias->isWrite())
      if (const at::Tensor given = call.tensor(i); is_split(given))
        written.push_back(given);
  return written;
}

bool has_out(Call& call) {
  const auto& arguments = call.op().schema().arguments();
  return std::any_of(arguments.begin(), arguments.end(),
                     [](const c10::Argument& argument) {
                       return argument.kwarg_only() && argument.alias_info() &&
                              argument.alias_info()->isWrite();
                     });
}

bool names_axes(Call& call) {
  const std::string& overload = call.op().schema().overload_name();
  for (const char* part : {"imname", "names", "named"})
    if (overload.find(part) != std::string::npos) return true;
  return false;
}

// Checks for properties that rules cannot see from names and sizes.
void check_call(Call& call) {
  if (has_out(call))
    call.refuse(
        "it writes its result to the tensor `out`, of which each rank has only "
        "a part; use the variant without `out`");
  if (names_axes(call)) call.refuse("axes are given by name; use axis numbers");
  for_each_split(call, [&](const at::Tensor& given) {
    if (const std::string reason = why_unusable(given); !reason.empty())
      call.refuse(reason);
  });
}

const Rule* rule_for(Call& call) {
  const Operations& all = operations();
  auto found = all.find(call.name() + "." + call.op().schema().overload_name());
  if (found == all.end()) found = all.find(call.name());
  return found == all.end() ? nullptr : &found->second;
}

void carry_out(Call& call, const Rule& rule) {
  const CallName name(call);
  if (rule.flat == Flat::kRefused)
    for_each_split(call, [&](const at::Tensor& given) {
      if (flat_from(given) >= 0)
        call.refuse(
            "its input is a flattened image, of which each rank has scattered "
            "elements of the last axis; call it before flatten()");
    });
  const at::Tensor given = any_split(call);
  if (!given.defined()) return rule.compute(call);
  const std::shared_ptr<Tiles> tiles = split_of(given).tiles;
  const std::vector<at::Tensor> written = written_by(call);
  // Neighbors may still be reading the memory that the operation will write.
  for (const at::Tensor& one : written) tiles->lent().wait_for(local_of(one));
  const TileMemory::Use use(tiles->memory());
  rule.compute(call);
  for (const at::Tensor& one : written) refresh_history(one);
}

// Composite operations are decomposed by libtorch, and their parts are
// dispatched here again.
void on_operation(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
  Call call(op, *stack);
  check_call(call);
  if (const Rule* rule = rule_for(call)) {
    carry_out(call, *rule);
  } else if (op.hasKernelForDispatchKey(
                 c10::DispatchKey::CompositeImplicitAutograd)) {
    op.redispatchBoxed(keys.remove(kDispatchKey), stack);
  } else {
    call.refuse("it is not supported");
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

c10::IValue& Call::operator[](std::size_t i) {
  SHEAF_ASSERT(i < count_, name(), " has ", count_, " arguments, and number ",
               i, " was requested");
  return stack_[stack_.size() - count_ + i];
}

std::optional<std::size_t> Call::place(const char* name) const {
  const auto& arguments = op_.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == name) return i;
  return std::nullopt;
}

void Call::refuse(const std::string& reason) {
  std::string shapes;
  for_each_split(*this, [&](const at::Tensor& given) {
    shapes += concat(shapes.empty() ? "" : " and ", split_of(given).text());
  });
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
    if (cut < 0 || axis < 0) continue;
    const std::int64_t size = split.sizes[static_cast<std::size_t>(cut)];
    if (given.size(axis) == 1 && size != 1) continue;
    const halo::Interval interval = split.interval(cut);
    if (given.size(axis) != size)
      call.refuse(concat("a tensor of size ", given.size(axis),
                         " along a cut axis does not match it"));
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

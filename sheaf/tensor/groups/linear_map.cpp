// Every collective here is a linear map from the tensors of all ranks to the
// tensors of all ranks, and the backward pass of a linear map is its adjoint,
// which is again a collective of this file. One autograd function therefore
// serves all of them, and gradients of gradients come for free. It works on
// flattened tensors; shapes are restored by operations that autograd records
// itself.
//
// Before a forward pass the ranks agree on whether any of them needs gradients,
// because each must then take part in the backward pass. The same exchange
// gives the call a number. It is part of the name of the backward call, so that
// ranks whose backward passes differ in order get MismatchError, not gradients
// of another call.

#include "sheaf/tensor/groups/linear_map.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/host/fingerprint.hpp"
#include "sheaf/tensor/groups/keep.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::tensor::differentiable {
namespace {

using comm::ReduceOp;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Kind adjoint_kind(Kind kind) {
  switch (kind) {
    case Kind::kReduce:
      return Kind::kBroadcast;
    case Kind::kBroadcast:
      return Kind::kReduce;
    case Kind::kAllGather:
      return Kind::kReduceScatter;
    case Kind::kReduceScatter:
      return Kind::kAllGather;
    case Kind::kGather:
      return Kind::kScatter;
    case Kind::kScatter:
      return Kind::kGather;
    default:
      return kind;
  }
}

LinearMap adjoint(LinearMap map) {
  map.kind = adjoint_kind(map.kind);
  if (map.kind == Kind::kAllToAll) std::swap(map.counts, map.received);
  map.is_backward = true;
  map.name = "backward of " + map.name;
  return map;
}

bool are_equal(const ElementCounts& counts) {
  return std::adjacent_find(counts.begin(), counts.end(),
                            std::not_equal_to<>()) == counts.end();
}

at::Tensor run_gathering(const LinearMap& map, const at::Tensor& flat,
                         const CollectiveOptions& options) {
  const bool has_result = map.kind == Kind::kAllGather || map.is_root();
  const at::Tensor output =
      at::empty({has_result ? total(map.counts) : 0}, flat.options());
  if (map.kind == Kind::kGather)
    tensor::gather(map.group, flat,
                   has_result ? parts(output, map.counts) : Tensors(), options)
        .wait();
  else if (are_equal(map.counts))
    tensor::all_gather(map.group, flat, output, options).wait();
  else
    tensor::all_gather(map.group, flat, parts(output, map.counts), options)
        .wait();
  return output;
}

at::Tensor run_scattering(const LinearMap& map, const at::Tensor& flat,
                          const CollectiveOptions& options) {
  const at::Tensor output = at::empty({map.own_count}, flat.options());
  if (map.kind == Kind::kScatter)
    tensor::scatter(map.group,
                    map.is_root() ? parts(flat, map.counts) : Tensors(), output,
                    options)
        .wait();
  else if (are_equal(map.counts))
    tensor::reduce_scatter(map.group, flat, output, options).wait();
  else
    tensor::reduce_scatter(map.group, parts(flat, map.counts), output, options)
        .wait();
  return output;
}

at::Tensor run_all_to_all(const LinearMap& map, const at::Tensor& flat,
                          const CollectiveOptions& options) {
  const at::Tensor output = at::empty({total(map.received)}, flat.options());
  tensor::all_to_all(map.group, parts(flat, map.counts),
                     parts(output, map.received), options)
      .wait();
  return output;
}

at::Tensor run_in_place(const LinearMap& map, const at::Tensor& flat,
                        const CollectiveOptions& options) {
  at::Tensor output = flat.clone(at::MemoryFormat::Contiguous);
  if (map.kind == Kind::kAllReduce)
    tensor::all_reduce(map.group, output, options).wait();
  else if (map.kind == Kind::kBroadcast)
    tensor::broadcast(map.group, output, options).wait();
  else
    tensor::reduce(map.group, output, options).wait();
  if (map.kind == Kind::kReduce && !map.is_root()) output.zero_();
  return output;
}

at::Tensor run(const LinearMap& map, const at::Tensor& flat) {
  CollectiveOptions options = map.options;
  const std::string name = " " + map.name;
  options.name = name;
  switch (map.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
      return run_in_place(map, flat, options);
    case Kind::kReduceScatter:
    case Kind::kScatter:
      return run_scattering(map, flat, options);
    case Kind::kAllToAll:
      return run_all_to_all(map, flat, options);
    default:
      break;
  }
  const bool is_average = options.op == ReduceOp::kAvg;
  options.op = ReduceOp::kSum;
  at::Tensor output = map.kind == Kind::kBroadcast
                          ? run_in_place(map, flat, options)
                          : run_gathering(map, flat, options);
  return is_average ? output.div_(map.group.size()) : output;
}

// The result of agree(), the same on all ranks.
struct Agreement {
  bool has_backward;    // the input of some rank requires a gradient
  std::int64_t number;  // of this call; differs from earlier calls of the group
};

// Ranks whose maps have other names get MismatchError.
Agreement agree(const LinearMap& map, bool needs) {
  const Group& group = map.group;
  const std::string name = " " + map.name;
  static std::atomic<std::int64_t> next_number{0};
  const bool is_enabled = at::GradMode::is_enabled();
  const at::Tensor votes = at::empty({4}, at::kLong);
  auto* const vote = votes.data_ptr<std::int64_t>();
  vote[0] = needs && is_enabled;
  vote[1] = !is_enabled;
  vote[2] = next_number;
  vote[3] = map.has_substitute;
  // Backward passes have numbers in their names, too many to remember.
  if (!map.is_backward) comm::remember_name(signature(votes) + name);
  tensor::all_reduce(
      group, votes,
      {.op = ReduceOp::kMax, .timeout = map.options.timeout, .name = name})
      .wait();
  for (std::int64_t seen = next_number;
       seen <= vote[2] &&
       !next_number.compare_exchange_weak(seen, vote[2] + 1);) {
  }
  if (vote[0] && vote[1])
    throw MismatchError(
        concat("rank ", group.rank(), ":", name, ": ",
               is_enabled ? "another rank" : "this rank",
               " has disabled gradients, but the input of ",
               needs && is_enabled ? "this rank" : "another rank",
               " requires one; use NoGradGuard on all ranks or on none"));
  if (vote[0] && vote[3])
    throw MismatchError(
        concat("rank ", group.rank(), ":", name, ": ",
               map.has_substitute ? "this rank" : "another rank",
               " passed an input that requires no gradient; gradients of "
               "gradients (create_graph) need inputs that require one on all "
               "ranks: call requires_grad_() there"));
  return {vote[0] != 0, vote[2]};
}

struct Exchange : torch::autograd::Function<Exchange> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& flat,
                            LinearMap map) {
    at::Tensor output = run(map, flat);
    keep(context, std::move(map));
    return output;
  }

  static variable_list backward(AutogradContext* context,
                                variable_list gradients) {
    LinearMap map = adjoint(kept<LinearMap>(context));
    if (at::GradMode::is_enabled())
      return {differentiable::apply(std::move(map), gradients[0]), {}};
    return {run(map, gradients[0]), {}};
  }
};

}  // namespace

std::int64_t total(const ElementCounts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

Tensors parts(const at::Tensor& flat, const ElementCounts& counts) {
  if (counts.empty()) return {};
  return flat.split_with_sizes(counts);
}

at::Tensor apply(LinearMap map, at::Tensor flat) {
  const Agreement agreed = agree(map, flat.requires_grad());
  map.name += concat(" ", agreed.number);
  map.has_substitute = agreed.has_backward && !flat.requires_grad();
  if (map.has_substitute)
    flat =
        (flat.is_inference() ? flat.clone() : flat.detach()).requires_grad_();
  return Exchange::apply(flat, std::move(map));
}

}  // namespace sheaf::tensor::differentiable

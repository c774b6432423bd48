#include "sheaf/tensor/groups/differentiable.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/tensor/groups/linear_map.hpp"
#include "sheaf/tensor/groups/memory.hpp"

namespace sheaf::tensor::differentiable {
namespace {

using comm::ReduceOp;
using Shape = std::vector<std::int64_t>;

void check_input(const Group& group, const at::Tensor& input,
                 const char* what) {
  SHEAF_CHECK(input.defined() && input.layout() == at::kStrided, "rank ",
              group.rank(), ": differentiable ", what,
              " needs dense tensors, but got ", describe(input),
              "; call to_dense()");
}

void check_list(const Group& group, const Tensors& inputs, const char* what) {
  SHEAF_CHECK(inputs.size() == static_cast<std::size_t>(group.size()), "rank ",
              group.rank(), ": differentiable ", what,
              " needs one tensor for each of the ", group.size(), " ranks; ",
              inputs.size(), " were passed");
  for (const at::Tensor& input : inputs) {
    check_input(group, input, what);
    SHEAF_CHECK(input.options().type_equal(inputs[0].options()), "rank ",
                group.rank(), ": differentiable ", what,
                " needs inputs of the same type and device, but got ",
                describe(input), " and ", describe(inputs[0]));
  }
}

// `signature` describes what must be the same on all ranks.
LinearMap make_map(Kind kind, const Group& group,
                   const CollectiveOptions& options, const char* what,
                   const std::string& signature) {
  SHEAF_CHECK(!options.async, "rank ", group.rank(), ": differentiable ", what,
              " cannot be asynchronous; leave `async` unset");
  SHEAF_CHECK(options.op == ReduceOp::kSum || options.op == ReduceOp::kAvg,
              "rank ", group.rank(), ": differentiable ", what,
              " supports kSum and kAvg, not ", comm::name_of(options.op));
  LinearMap map{kind, group, options,
                concat("differentiable ", what, " of ", signature)};
  if (!options.name.empty()) map.name += concat(" ", options.name);
  const bool is_reducing = kind == Kind::kAllReduce || kind == Kind::kReduce ||
                           kind == Kind::kReduceScatter;
  if (!is_reducing) map.options.op = ReduceOp::kSum;
  return map;
}

std::string type_name(const at::Tensor& tensor) {
  return c10::toString(tensor.scalar_type());
}

at::Tensor same_shape(Kind kind, const Group& group, const at::Tensor& input,
                      const CollectiveOptions& options, const char* what) {
  check_input(group, input, what);
  LinearMap map = make_map(kind, group, options, what, signature(input));
  return apply(std::move(map), input.reshape(-1)).view(input.sizes());
}

// Shapes are exchanged as rows of numbers: the number of axes, then the sizes.
constexpr std::int64_t kMaxAxes = 15;

at::Tensor shape_row(const Group& group, const at::Tensor& tensor) {
  SHEAF_CHECK(tensor.dim() <= kMaxAxes, "rank ", group.rank(), ": a tensor of ",
              tensor.dim(), " axes; differentiable collectives support ",
              kMaxAxes);
  const at::Tensor row = at::zeros({kMaxAxes + 1}, at::kLong);
  auto* const values = row.data_ptr<std::int64_t>();
  values[0] = tensor.dim();
  std::copy(tensor.sizes().begin(), tensor.sizes().end(), values + 1);
  return row;
}

std::vector<Shape> shapes_of(const Tensors& rows) {
  std::vector<Shape> shapes;
  for (const at::Tensor& row : rows) {
    const auto* values = row.data_ptr<std::int64_t>();
    shapes.emplace_back(values + 1, values + 1 + values[0]);
  }
  return shapes;
}

std::int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1},
                         std::multiplies<>());
}

ElementCounts counts_of(const std::vector<Shape>& shapes) {
  ElementCounts counts;
  for (const Shape& shape : shapes) counts.push_back(count_of(shape));
  return counts;
}

ElementCounts counts_of(const Tensors& tensors) {
  ElementCounts counts;
  for (const at::Tensor& tensor : tensors) counts.push_back(tensor.numel());
  return counts;
}

Tensors shaped_parts(const at::Tensor& flat, const std::vector<Shape>& shapes) {
  Tensors shaped = parts(flat, counts_of(shapes));
  for (std::size_t i = 0; i < shapes.size(); ++i)
    shaped[i] = shaped[i].view(shapes[i]);
  return shaped;
}

// Parts have two axes, because cat() cuts empty tensors with one axis out of
// the graph.
at::Tensor flat_list(const Tensors& inputs) {
  Tensors columns;
  for (const at::Tensor& input : inputs)
    columns.push_back(input.reshape({input.numel(), 1}));
  return at::cat(columns).view(-1);
}

struct Gathered {
  at::Tensor flat;
  std::vector<Shape> shapes;
};

Gathered gather_flat(LinearMap map, const at::Tensor& input) {
  const at::Tensor rows =
      at::empty({map.group.size(), kMaxAxes + 1}, at::kLong);
  tensor::all_gather(map.group, shape_row(map.group, input), rows,
                     {.timeout = map.options.timeout, .name = " shapes"})
      .wait();
  Gathered result;
  result.shapes = shapes_of(rows.unbind(0));
  map.own_count = input.numel();
  map.counts = counts_of(result.shapes);
  result.flat = apply(std::move(map), input.reshape(-1));
  return result;
}

}  // namespace

at::Tensor all_reduce(const Group& group, const at::Tensor& input,
                      const CollectiveOptions& options) {
  return same_shape(Kind::kAllReduce, group, input, options, "all_reduce");
}

at::Tensor reduce(const Group& group, const at::Tensor& input,
                  const CollectiveOptions& options) {
  return same_shape(Kind::kReduce, group, input, options, "reduce");
}

at::Tensor broadcast(const Group& group, const at::Tensor& input,
                     const CollectiveOptions& options) {
  return same_shape(Kind::kBroadcast, group, input, options, "broadcast");
}

Tensors all_gather(const Group& group, const at::Tensor& input,
                   const CollectiveOptions& options) {
  check_input(group, input, "all_gather");
  const Gathered all = gather_flat(make_map(Kind::kAllGather, group, options,
                                            "all_gather", type_name(input)),
                                   input);
  return shaped_parts(all.flat, all.shapes);
}

Tensors gather(const Group& group, const at::Tensor& input,
               const CollectiveOptions& options) {
  check_input(group, input, "gather");
  const Gathered all = gather_flat(
      make_map(Kind::kGather, group, options, "gather", type_name(input)),
      input);
  if (group.rank() != options.root) return {all.flat};
  return shaped_parts(all.flat, all.shapes);
}

at::Tensor reduce_scatter(const Group& group, const Tensors& inputs,
                          const CollectiveOptions& options) {
  check_list(group, inputs, "reduce_scatter");
  std::string all;
  for (const at::Tensor& input : inputs) all += signature(input);
  LinearMap map =
      make_map(Kind::kReduceScatter, group, options, "reduce_scatter", all);
  const at::Tensor& own = inputs[static_cast<std::size_t>(group.rank())];
  map.own_count = own.numel();
  map.counts = counts_of(inputs);
  return apply(std::move(map), flat_list(inputs)).view(own.sizes());
}

at::Tensor reduce_scatter(const Group& group, const at::Tensor& input,
                          const CollectiveOptions& options) {
  check_input(group, input, "reduce_scatter");
  SHEAF_CHECK(input.dim() > 0 && input.size(0) % group.size() == 0, "rank ",
              group.rank(), ": differentiable reduce_scatter cannot cut ",
              describe(input), " into equal chunks for ", group.size(),
              " ranks along its first axis; pass a list of tensors");
  const std::int64_t rows = input.size(0) / group.size();
  return reduce_scatter(group,
                        input.split_with_sizes(Shape(
                            static_cast<std::size_t>(group.size()), rows)),
                        options);
}

at::Tensor scatter(const Group& group, const Tensors& inputs,
                   const at::Tensor& like, const CollectiveOptions& options) {
  check_input(group, like, "scatter");
  LinearMap map =
      make_map(Kind::kScatter, group, options, "scatter", type_name(like));
  map.own_count = like.numel();
  if (!map.is_root()) {
    SHEAF_CHECK(inputs.empty(), "rank ", group.rank(),
                ": differentiable scatter: only the root, rank ", options.root,
                ", passes tensors; this rank passed ", inputs.size());
    return apply(std::move(map), like.reshape(-1).narrow(0, 0, 0))
        .view(like.sizes());
  }
  check_list(group, inputs, "scatter");
  SHEAF_CHECK(inputs[0].options().type_equal(like.options()), "rank ",
              group.rank(), ": differentiable scatter of ", describe(inputs[0]),
              " into ", describe(like), "; use the same type and device");
  map.counts = counts_of(inputs);
  return apply(std::move(map), flat_list(inputs)).view(like.sizes());
}

Tensors all_to_all(const Group& group, const Tensors& inputs,
                   const CollectiveOptions& options) {
  check_list(group, inputs, "all_to_all");
  LinearMap map = make_map(Kind::kAllToAll, group, options, "all_to_all",
                           type_name(inputs[0]));
  Tensors sent, rows;
  for (const at::Tensor& input : inputs) {
    sent.push_back(shape_row(group, input));
    rows.push_back(at::empty_like(sent.back()));
  }
  tensor::all_to_all(group, sent, rows,
                     {.timeout = options.timeout, .name = " shapes"})
      .wait();
  const auto shapes = shapes_of(rows);
  map.counts = counts_of(inputs);
  map.received = counts_of(shapes);
  return shaped_parts(apply(std::move(map), flat_list(inputs)), shapes);
}

}  // namespace sheaf::tensor::differentiable

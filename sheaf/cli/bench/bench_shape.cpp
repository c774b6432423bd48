#include "sheaf/cli/bench/bench_shape.hpp"

#include <algorithm>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/point_to_point.hpp"

namespace sheaf::cli {
namespace {

using comm::Operation;

constexpr std::size_t kAlignment = 64;  // between input and output

bool can_be_in_place(Operation operation) {
  return operation != Operation::kAllToAll && operation != Operation::kSend;
}

// Sets the number of input and output elements of this rank: one block, or the
// blocks of all ranks.
void set_counts(Shape& shape) {
  const std::size_t block = shape.call.count;
  const std::size_t all = block * static_cast<std::size_t>(shape.ranks);
  const bool is_root = shape.rank == shape.call.root;
  shape.input_count = shape.output_count = block;
  switch (shape.call.operation) {
    case Operation::kGather:
      shape.output_count = is_root ? all : 0;
      break;
    case Operation::kAllGather:
      shape.output_count = all;
      break;
    case Operation::kScatter:
      shape.input_count = is_root ? all : 0;
      break;
    case Operation::kReduceScatter:
      shape.input_count = all;
      break;
    case Operation::kAllToAll:
      shape.input_count = shape.output_count = all;
      break;
    default:
      break;
  }
}

void set_places(Shape& shape) {
  const auto mine = static_cast<std::size_t>(shape.rank) * shape.call.count;
  if (!shape.call.in_place) {
    const std::size_t unit = kAlignment / size_of(shape.call.dtype);
    shape.output_at = (shape.input_count + unit - 1) / unit * unit;
  } else if (shape.output_count > shape.input_count && shape.input_count > 0) {
    shape.input_at = mine;
  } else if (shape.input_count > shape.output_count && shape.output_count > 0) {
    shape.output_at = mine;
  }
}

void send_receive(const comm::Group& group, comm::ConstBuffer input,
                  comm::Buffer output) {
  const int ranks = group.size();
  comm::Work sent = comm::isend(group, input, (group.rank() + 1) % ranks);
  comm::recv(group, output, (group.rank() + ranks - 1) % ranks);
  sent.wait();
}

}  // namespace

std::size_t Shape::slot_bytes() const {
  return std::max(input_at + input_count, output_at + output_count) *
         size_of(call.dtype);
}

const std::byte* Shape::input(const std::byte* slot) const {
  return slot + input_at * size_of(call.dtype);
}

std::byte* Shape::output(std::byte* slot) const {
  return slot + output_at * size_of(call.dtype);
}

Shape make_shape(const ShapeRequest& request) {
  Shape shape;
  shape.rank = request.rank;
  shape.ranks = request.ranks;
  shape.call = {
      .operation = request.operation,
      .dtype = request.dtype,
      .op = request.op,
      .root = request.root,
      .count = 0,
      .in_place = request.operation == Operation::kBroadcast ||
                  (request.in_place && can_be_in_place(request.operation))};
  if (request.operation == Operation::kBarrier) return shape;
  const std::size_t element = size_of(request.dtype);
  const std::size_t count = std::max<std::size_t>(1, request.bytes / element);
  const auto parts = static_cast<std::size_t>(
      has_blocks(request.operation) ? request.ranks : 1);
  shape.call.count = (count + parts - 1) / parts;
  shape.size_bytes = shape.call.count * parts * element;
  set_counts(shape);
  set_places(shape);
  return shape;
}

double bus_factor(Operation operation, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  if (operation == Operation::kAllReduce) return 2 * share;
  return has_blocks(operation) ? share : 1;
}

void run_ours(const comm::Group& group, const Shape& shape, std::byte* slot,
              const comm::CollectiveOptions& options) {
  const comm::ConstBuffer input(shape.input(slot), shape.input_count,
                                shape.call.dtype);
  const comm::Buffer output(shape.output(slot), shape.output_count,
                            shape.call.dtype);
  switch (shape.call.operation) {
    case Operation::kBarrier:
      comm::barrier(group, options).wait();
      break;
    case Operation::kBroadcast:
      comm::broadcast(group, output, options).wait();
      break;
    case Operation::kReduce:
      comm::reduce(group, input, output, options).wait();
      break;
    case Operation::kGather:
      comm::gather(group, input, output, options).wait();
      break;
    case Operation::kAllGather:
      comm::all_gather(group, input, output, options).wait();
      break;
    case Operation::kScatter:
      comm::scatter(group, input, output, options).wait();
      break;
    case Operation::kReduceScatter:
      comm::reduce_scatter(group, input, output, options).wait();
      break;
    case Operation::kAllToAll:
      comm::all_to_all(group, input, output, options).wait();
      break;
    case Operation::kSend:
      send_receive(group, input, output);
      break;
    default:
      comm::all_reduce(group, input, output, options).wait();
  }
}

}  // namespace sheaf::cli

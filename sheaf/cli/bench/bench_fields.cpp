#include "sheaf/cli/bench/bench_fields.hpp"

namespace sheaf::cli {
namespace {

void add_call(Fields& fields, const BenchRow& row, const RowContext& context) {
  const comm::BaselineCall& call = row.shape.call;
  const BenchPlan& plan = context.plan;
  fields.add("collective", plan.name);
  fields.add("size_bytes", row.shape.size_bytes);
  fields.add("count", call.count);
  fields.add("dtype", name_of(call.dtype));
  fields.add("op", op_cell(call));
  fields.add("root", root_cell(call));
  fields.add("ranks", context.ranks);
  fields.add("hosts", context.hosts);
  fields.add("buffer", plan.in_arena ? "arena" : "plain");
  fields.add("in_place", call.in_place);
  fields.add("mode", std::string(1, topo::letter_of(plan.options.mode)));
  fields.add("algorithm", row.algorithm);
}

void add_times(Fields& fields, const BenchRow& row) {
  const Summary& us = row.timing.us;
  fields.add("rotate", row.slots);
  fields.add("blocks", us.count);
  fields.add("iterations", row.timing.iterations);
  fields.add("time_us", us.median);
  fields.add("min_us", us.min);
  fields.add("p99_us", us.p99);
  fields.add("spread_us", us.robust_spread);
  fields.add("algbw_gbs", algbw_cell(row));
  fields.add("busbw_gbs", busbw_cell(row));
  fields.add("wrong", count_cell(row.wrong));
  fields.add("bound_us", row.bound_us > 0 ? Cell(row.bound_us) : Cell());
  fields.add("bound_fraction", bound_cell(row));
}

void add_rival(Fields& fields, const BenchRow& row, const Rival* rival) {
  const auto figure = [&](double value) {
    return rival ? Cell(value) : Cell();
  };
  const Summary us = rival ? rival->timing.us : Summary{};
  fields.add("versus", rival ? Cell(rival->name) : Cell());
  fields.add("versus_time_us", figure(us.median));
  fields.add("versus_min_us", figure(us.min));
  fields.add("versus_p99_us", figure(us.p99));
  fields.add("versus_spread_us", figure(us.robust_spread));
  fields.add("versus_wrong", rival ? count_cell(rival->wrong) : Cell());
  fields.add("ratio", figure(us.median / row.timing.us.median));
}

double algbw(const BenchRow& row) {
  return static_cast<double>(row.shape.size_bytes) / row.timing.us.median / 1e3;
}

}  // namespace

void Fields::add(const char* key, Cell cell) {
  columns_.push_back({.name = key});
  cells_.push_back(std::move(cell));
}

Fields fields_of(const BenchRow& row, const RowContext& context,
                 const Rival* rival) {
  Fields fields;
  add_call(fields, row, context);
  add_times(fields, row);
  add_rival(fields, row, rival);
  return fields;
}

Cell algbw_cell(const BenchRow& row) {
  if (row.shape.size_bytes == 0) return {};
  return algbw(row);
}

Cell busbw_cell(const BenchRow& row) {
  if (row.shape.size_bytes == 0) return {};
  return algbw(row) * bus_factor(row.shape.call.operation, row.shape.ranks);
}

Cell bound_cell(const BenchRow& row) {
  if (row.bound_us <= 0) return {};
  return row.bound_us / row.timing.us.median;
}

Cell op_cell(const comm::BaselineCall& call) {
  if (!is_reducing(call.operation)) return {};
  return name_of(call.op);
}

Cell root_cell(const comm::BaselineCall& call) {
  if (!has_root(call.operation)) return {};
  return call.root;
}

Cell count_cell(const std::optional<std::int64_t>& count) {
  if (!count) return {};
  return *count;
}

}  // namespace sheaf::cli

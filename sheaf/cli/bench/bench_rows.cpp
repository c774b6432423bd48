#include "sheaf/cli/bench/bench_rows.hpp"

#include <fmt/format.h>

#include <iostream>

namespace sheaf::cli {
namespace {

std::vector<Column> text_columns(const BenchPlan& plan) {
  std::vector<Column> columns{
      {.name = "size", .unit = "B", .min_width = 10},
      {.name = "count", .min_width = 10},
      {.name = "type", .min_width = 4},
      {.name = "redop", .min_width = 7},
      {.name = "root"},
      {.name = "time", .unit = "us", .min_width = 10},
      {.name = "algbw", .unit = "GB/s", .min_width = 7},
      {.name = "busbw", .unit = "GB/s", .min_width = 7},
      {.name = "#wrong"},
      {.name = "bound", .unit = "%", .decimals = 1, .min_width = 6}};
  for (const std::string& rival : plan.versus) {
    columns.push_back({.name = rival, .unit = "us", .min_width = 10});
    columns.push_back({.name = rival + "/ours"});
  }
  return columns;
}

void print_title(const RowContext& context) {
  const auto plural = [](int number) { return number == 1 ? "" : "s"; };
  std::cout << fmt::format(
      "# {}, {} rank{} on {} host{}, {} buffers\n", context.plan.name,
      context.ranks, plural(context.ranks), context.hosts,
      plural(context.hosts), context.plan.in_arena ? "arena" : "plain");
}

void add_call(Fields& fields, const BenchRow& row, const RowContext& context) {
  const comm::RivalCall& call = row.shape.call;
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

RowPrinter::RowPrinter(const RowContext& context) : context_(context) {}

void RowPrinter::print(const BenchRow& row) {
  if (context_.plan.format == TableFormat::kText) print_text(row);
  std::vector<const Rival*> rivals;
  for (const Rival& rival : row.rivals) rivals.push_back(&rival);
  if (rivals.empty()) rivals.push_back(nullptr);
  for (const Rival* rival : rivals) {
    const Fields fields = fields_of(row, context_, rival);
    if (context_.plan.format != TableFormat::kText) print_fields(fields);
    if (context_.record.empty()) continue;
    Table record(fields.columns());
    record.add_row(fields.cells());
    append_record(context_.record, record, context_.command_line);
  }
}

void RowPrinter::print_text(const BenchRow& row) {
  if (!table_) {
    print_title(context_);
    table_.emplace(text_columns(context_.plan));
    table_->stream_to(std::cout, TableFormat::kText);
  }
  const comm::RivalCall& call = row.shape.call;
  const double bound = 100 * row.bound_us / row.timing.us.median;
  std::vector<Cell> cells;
  cells.emplace_back(row.shape.size_bytes);
  cells.emplace_back(call.count);
  cells.emplace_back(name_of(call.dtype));
  cells.push_back(op_cell(call));
  cells.push_back(root_cell(call));
  cells.emplace_back(row.timing.us.median);
  cells.push_back(algbw_cell(row));
  cells.push_back(busbw_cell(row));
  cells.push_back(count_cell(row.wrong));
  cells.push_back(row.bound_us > 0 ? Cell(bound) : Cell());
  for (const Rival& rival : row.rivals) {
    cells.emplace_back(rival.timing.us.median);
    cells.emplace_back(rival.timing.us.median / row.timing.us.median);
  }
  table_->add_row(std::move(cells));
}

void RowPrinter::print_fields(const Fields& fields) {
  if (!table_) {
    table_.emplace(fields.columns());
    table_->stream_to(std::cout, context_.plan.format);
  }
  table_->add_row(fields.cells());
}

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

Cell op_cell(const comm::RivalCall& call) {
  if (!is_reducing(call.operation)) return {};
  return name_of(call.op);
}

Cell root_cell(const comm::RivalCall& call) {
  if (!has_root(call.operation)) return {};
  return call.root;
}

Cell count_cell(const std::optional<std::int64_t>& count) {
  if (!count) return {};
  return *count;
}

}  // namespace sheaf::cli

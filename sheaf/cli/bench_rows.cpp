#include "sheaf/cli/bench_rows.hpp"

#include <fmt/format.h>

#include <iostream>

#include "sheaf/cli/bench_record.hpp"

namespace sheaf::cli {
namespace {

using comm::Operation;
using Cells = std::vector<Cell>;

std::vector<Column> text_columns(const BenchPlan& plan) {
  std::vector<Column> columns{
      {.name = "size", .unit = "B", .min_width = 10},
      {.name = "count", .unit = "elements", .min_width = 10},
      {.name = "type"},
      {.name = "redop"},
      {.name = "root"},
      {.name = "time", .unit = "us", .min_width = 10},
      {.name = "algbw", .unit = "GB/s", .min_width = 7},
      {.name = "busbw", .unit = "GB/s", .min_width = 7},
      {.name = "#wrong"},
      {.name = "bound", .unit = "%", .decimals = 1, .min_width = 6}};
  for (const std::string& rival : plan.versus) {
    columns.push_back(
        {.name = rival, .unit = "us", .key = rival, .min_width = 10});
    columns.push_back(
        {.name = "ratio", .unit = rival + "/ours", .key = rival + "_ratio"});
  }
  return columns;
}

std::vector<Column> program_columns() {
  std::vector<Column> columns;
  for (const char* key :
       {"collective",   "size_bytes",     "count",         "dtype",
        "op",           "root",           "ranks",         "hosts",
        "buffer",       "in_place",       "mode",          "algorithm",
        "rotate",       "blocks",         "iterations",    "time_us",
        "min_us",       "p99_us",         "spread_us",     "algbw_gbs",
        "busbw_gbs",    "wrong",          "bound_us",      "bound_fraction",
        "versus",       "versus_time_us", "versus_min_us", "versus_spread_us",
        "versus_wrong", "ratio"})
    columns.push_back({.name = key});
  return columns;
}

// Gigabytes per second; nothing for a barrier.
Cell algbw(const BenchRow& row) {
  if (row.shape.size_bytes == 0) return {};
  return static_cast<double>(row.shape.size_bytes) / row.timing.us.median / 1e3;
}

Cell busbw(const BenchRow& row) {
  if (row.shape.size_bytes == 0) return {};
  return static_cast<double>(row.shape.size_bytes) / row.timing.us.median /
         1e3 * bus_factor(row.shape.call.operation, row.shape.ranks);
}

Cell bound_part(const BenchRow& row, double unit) {
  if (row.bound_us == 0) return {};
  return unit * row.bound_us / row.timing.us.median;
}

Cell op_cell(const comm::BaselineCall& call) {
  if (!is_reducing(call.operation)) return {};
  return name_of(call.op);
}

Cell root_cell(const comm::BaselineCall& call) {
  if (!is_rooted(call.operation)) return {};
  return call.root;
}

Cell count_cell(const std::optional<std::int64_t>& count) {
  return count ? Cell(*count) : Cell();
}

void add(Cells& cells, Cells more) {
  cells.insert(cells.end(), more.begin(), more.end());
}

Cells our_cells(const BenchRow& row, const RowContext& context) {
  const BenchPlan& plan = context.plan;
  const comm::BaselineCall& call = row.shape.call;
  const Summary& us = row.timing.us;
  Cells cells{plan.name,
              row.shape.size_bytes,
              call.count,
              name_of(plan.dtype),
              op_cell(call),
              root_cell(call),
              context.ranks,
              context.hosts,
              plan.in_arena ? "arena" : "plain",
              call.in_place,
              std::string(1, topo::letter_of(plan.options.mode)),
              row.algorithm,
              row.slots,
              us.count,
              row.timing.iterations};
  add(cells, {us.median, us.min, us.p99, us.robust_spread, algbw(row),
              busbw(row), count_cell(row.wrong)});
  add(cells,
      {row.bound_us == 0 ? Cell() : Cell(row.bound_us), bound_part(row, 1)});
  return cells;
}

Cells rival_cells(const BenchRow& row, const Rival* rival) {
  if (!rival) return Cells(6);
  const Summary& us = rival->timing.us;
  return {rival->name,
          us.median,
          us.min,
          us.robust_spread,
          count_cell(rival->wrong),
          us.median / row.timing.us.median};
}

void print_title(const RowContext& context) {
  const BenchPlan& plan = context.plan;
  std::cout << fmt::format("# {}, {} rank{} on {} host{}, {} buffers",
                           plan.name, context.ranks,
                           context.ranks == 1 ? "" : "s", context.hosts,
                           context.hosts == 1 ? "" : "s",
                           plan.in_arena ? "arena" : "plain")
            << std::endl;
}

}  // namespace

RowPrinter::RowPrinter(const RowContext& context)
    : context_(context),
      table_(context.plan.format == TableFormat::kText
                 ? text_columns(context.plan)
                 : program_columns()) {
  if (context.plan.format == TableFormat::kText) print_title(context);
  table_.stream_to(std::cout, context.plan.format);
}

void RowPrinter::print(const BenchRow& row) {
  if (context_.plan.format == TableFormat::kText) print_text(row);
  print_for_programs(row);
}

void RowPrinter::print_text(const BenchRow& row) {
  const comm::BaselineCall& call = row.shape.call;
  Cells cells{row.shape.size_bytes, call.count,      name_of(call.dtype),
              op_cell(call),        root_cell(call), row.timing.us.median,
              algbw(row),           busbw(row),      count_cell(row.wrong),
              bound_part(row, 100)};
  for (const Rival& rival : row.rivals)
    add(cells, {rival.timing.us.median,
                rival.timing.us.median / row.timing.us.median});
  table_.add_row(cells);
}

void RowPrinter::print_for_programs(const BenchRow& row) {
  std::vector<const Rival*> rivals;
  for (const Rival& rival : row.rivals) rivals.push_back(&rival);
  if (rivals.empty()) rivals.push_back(nullptr);
  Table record(program_columns());
  for (const Rival* rival : rivals) {
    Cells cells = our_cells(row, context_);
    add(cells, rival_cells(row, rival));
    if (context_.plan.format != TableFormat::kText) table_.add_row(cells);
    record.add_row(cells);
  }
  if (!context_.record.empty())
    append_record(context_.record, record, context_.command_line);
}

}  // namespace sheaf::cli

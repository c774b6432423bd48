#include "sheaf/cli/bench/bench_rows.hpp"

#include <fmt/format.h>

#include <iostream>

#include "sheaf/cli/bench/bench_fields.hpp"
#include "sheaf/cli/bench/bench_record.hpp"

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
  const comm::BaselineCall& call = row.shape.call;
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

}  // namespace sheaf::cli

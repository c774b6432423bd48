// sheaf report: writes an HTML page about one or several runs.
#include <iostream>
#include <memory>

#include "sheaf/base/files.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/report/page/page.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kReportFooter =
    "Examples:\n"
    "  sheaf report runs/fashion_mnist-001\n"
    "  sheaf report runs/mlp_ddp runs/mlp_dad -o compared.html\n";

struct ReportArgs {
  std::vector<std::filesystem::path> runs;
  std::vector<std::string> labels;
  report::PageOptions page;
  std::filesystem::path output = "report.html";
};

void write_report(const ReportArgs& args) {
  report::check_echarts();  // before the long part
  const auto runs =
      report::read_runs(args.runs, args.labels, {.with_traces = true});
  for (const report::Run& run : runs)
    if (!run.log.note.empty())
      std::cerr << "sheaf report: " << run.log.note << '\n';
  write_file_atomically(args.output, report::page_of(runs, args.page));
  std::cout << args.output.string() << '\n';
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto args = std::make_shared<ReportArgs>();
  CLI::App* command =
      app.add_subcommand("report", "Write an HTML report of runs, with charts");
  command->footer(kReportFooter);
  command->add_option("runs", args->runs, "Run folders")->required();
  command->add_option("-o,--output", args->output, "File to write")
      ->capture_default_str();
  command->add_option("--label", args->labels,
                      "Labels of the runs, one each (default: the part of the "
                      "folder's name after the last _)");
  command->add_option("--title", args->page.title, "Title of the page");
  command
      ->add_option("--warm-up", args->page.warm_up,
                   "Number of initial batches to exclude from means")
      ->capture_default_str();
  command->callback([args] { write_report(*args); });
}

}  // namespace sheaf::cli

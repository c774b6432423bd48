// sheaf report: one page about one or several runs.
#include <iostream>
#include <memory>

#include "sheaf/base/atomic_file.hpp"
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
      app.add_subcommand("report", "Write a page with charts of runs");
  command->footer(kReportFooter);
  command->add_option("runs", args->runs, "Folders of runs")->required();
  command->add_option("-o,--output", args->output, "The page")
      ->capture_default_str();
  command->add_option("--label", args->labels,
                      "Names of the runs, one for each; else the last part of "
                      "the folder's name, parted by _");
  command->add_option("--title", args->page.title, "The heading");
  command
      ->add_option("--warm-up", args->page.warm_up,
                   "So many first batches do not count in means")
      ->capture_default_str();
  command->callback([args] { write_report(*args); });
}

}  // namespace sheaf::cli

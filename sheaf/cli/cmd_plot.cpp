// sheaf plot: figures and a table that compare the times of runs.
#include <iostream>
#include <memory>
#include <sstream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/report/draw/figure.hpp"
#include "sheaf/report/draw/scene.hpp"
#include "sheaf/report/runs/compare.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPlotFooter =
    "Examples:\n"
    "  sheaf plot -paths runs/mlp_ddp runs/mlp_dad\n"
    "  sheaf plot --paths runs/* --keys batch_duration exchange_duration\n"
    "  sheaf plot --paths runs/a runs/b --label \"ring\" --label \"dAD\" "
    "-o out/first\n";

struct PlotArgs {
  std::vector<fs::path> runs;
  std::vector<std::string> labels;
  report::CompareOptions compare;
  std::string output;
  bool as_json = false;
};

// The prefix of the output files' names: "out/" or "out/prefix_".
std::string stem_of(const std::string& output) {
  if (output.empty()) return "";
  const fs::path path(output);
  const bool is_folder = path.filename().empty() || fs::is_directory(path);
  const fs::path folder = is_folder ? path : path.parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error)
    throw IoError(concat("cannot create the folder ", folder.string(), ": ",
                         error.message()));
  return is_folder ? (path / "").string() : output + "_";
}

// Replaces characters that a file name cannot contain; keys come from log files
// and may contain any character.
std::string file_name_of(std::string key) {
  for (char& letter : key)
    if (letter == '/' || letter == '\0') letter = '-';
  return key;
}

std::vector<std::string> write_pictures(
    const std::vector<report::Comparison>& comparisons,
    const std::string& stem) {
  std::vector<std::string> written;
  bool has_png = true;
  for (const report::Comparison& comparison : comparisons) {
    const report::Scene scene = draw(figure_of(comparison));
    const std::string name = stem + file_name_of(comparison.key);
    write_file_atomically(name + ".svg", svg_of(scene));
    written.push_back(name + ".svg");
    has_png = has_png && report::write_png(scene, name + ".png");
    if (has_png) written.push_back(name + ".png");
  }
  if (!has_png)
    std::cerr << "sheaf plot: no PNG files were written, because rsvg-convert "
                 "is missing; install the package librsvg2-bin\n";
  return written;
}

std::string csv_of(const std::vector<report::Comparison>& comparisons) {
  std::ostringstream csv;
  table_of(comparisons, TableFormat::kCsv).print(csv, TableFormat::kCsv);
  return csv.str();
}

void print_notes(const std::vector<report::Run>& runs,
                 const std::vector<report::Comparison>& comparisons) {
  for (const report::Run& run : runs)
    if (!run.log.note.empty())
      std::cerr << "sheaf plot: " << run.log.note << '\n';
  for (const report::Comparison& comparison : comparisons)
    for (const std::string& note : comparison.notes)
      std::cerr << "sheaf plot: " << comparison.key << ": " << note << '\n';
}

void plot(const PlotArgs& args) {
  const auto runs = report::read_runs(args.runs, args.labels);
  const auto comparisons = report::compare(runs, args.compare);
  print_notes(runs, comparisons);
  const std::string stem = stem_of(args.output);
  auto written = write_pictures(comparisons, stem);
  write_file_atomically(stem + "table.csv", csv_of(comparisons));
  written.push_back(stem + "table.csv");
  const auto format = args.as_json ? TableFormat::kJson : TableFormat::kText;
  table_of(comparisons, format).print(std::cout, format);
  if (args.as_json) return;
  std::cout << '\n';
  for (const std::string& name : written) std::cout << name << '\n';
}

}  // namespace

void add_plot_command(CLI::App& app) {
  auto args = std::make_shared<PlotArgs>();
  CLI::App* command =
      app.add_subcommand("plot", "Plot and compare the times of runs");
  command->footer(kPlotFooter);
  command->add_option("--paths,paths", args->runs, "Run folders")->required();
  command->add_option("--keys", args->compare.keys,
                      "Keys of the batch rows in log.jsonl to plot (default: "
                      "batch_duration)");
  command->add_option("--label", args->labels,
                      "Legend labels, one per run (default: the part of the "
                      "folder's name after the last _)");
  command
      ->add_option("--warm-up", args->compare.warm_up,
                   "Number of initial batches to ignore")
      ->capture_default_str();
  command->add_flag("--skip-missing", args->compare.skip_missing,
                    "Omit runs that lack a key instead of failing");
  command->add_option("-o,--output", args->output,
                      "FOLDER/ or FOLDER/PREFIX of the output files (default: "
                      "the current folder)");
  command->add_flag("--json", args->as_json, "Print the table as JSON lines");
  command->callback([args] { plot(*args); });
}

}  // namespace sheaf::cli

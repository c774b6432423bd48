// sheaf dump show: prints the dump files that a failed check wrote.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/table.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/comm/ddl/dump_replay.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;
using comm::Dump;

constexpr std::size_t kInputsShown = 8;
constexpr std::string_view kPrefix = "sheaf.dump.";

struct DumpArgs {
  std::vector<std::string> files;
  std::size_t elements = 10;
  bool as_json = false;

  TableFormat format() const {
    return as_json ? TableFormat::kJson : TableFormat::kText;
  }
};

std::string text_of(double value) { return fmt::format("{:.9g}", value); }

// Text output has nine digits, JSON the full number. Values that JSON cannot
// represent (NaN, infinity) are strings.
Cell number(double value, TableFormat format) {
  if (format == TableFormat::kJson && std::isfinite(value)) return value;
  return text_of(value);
}

// ".12" for "sheaf.dump.3.12": the part that all dumps of one call share.
std::string call_part(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix)) return "";
  const std::size_t dot = name.find('.', kPrefix.size());
  return dot == std::string::npos ? "" : name.substr(dot);
}

// The dump in `path`, then the dumps of the same call in the same folder.
std::vector<Dump> with_siblings(const fs::path& path) {
  std::vector<Dump> dumps{comm::read_dump(path)};
  const std::string part = call_part(path);
  if (part.empty()) return dumps;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  for (const fs::path& other : entries_of(folder)) {
    if (call_part(other) != part || other.filename() == path.filename())
      continue;
    Dump dump = comm::read_dump(other);
    const bool is_new = std::none_of(
        dumps.begin(), dumps.end(),
        [&](const Dump& known) { return known.rank == dump.rank; });
    if (is_new && comm::is_same_call(dumps[0], dump))
      dumps.push_back(std::move(dump));
  }
  return dumps;
}

std::vector<Dump> read_all(const DumpArgs& args) {
  if (args.files.size() == 1) return with_siblings(args.files[0]);
  std::vector<Dump> dumps;
  for (const std::string& file : args.files)
    dumps.push_back(comm::read_dump(file));
  return dumps;
}

void print_call(const Dump& dump) {
  std::cout << fmt::format(
      "{} in group {}, iteration {}, dumped by rank {} of {}\n",
      describe(dump.call), dump.group, dump.iteration, dump.rank, dump.size());
  if (dump.counts.size() > 1)
    std::cout << "buffers of "
              << fmt::format("{}", fmt::join(dump.counts, ", "))
              << " elements\n";
  std::cout << fmt::format("options {}, transport {}\n",
                           printable(dump.options), printable(dump.transport));
  for (const comm::DumpHost& host : dump.hosts)
    std::cout << fmt::format("host {}: ranks {}\n", printable(host.name),
                             fmt::join(host.ranks, ", "));
  std::cout << fmt::format(
      "check {}: {} of {} elements are wrong on this rank; the largest error "
      "is at element {} on rank {}: {}\n",
      dump.check, dump.verdict.wrong, dump.verdict.checked, dump.worst.element,
      dump.worst_rank, describe(dump.worst));
  if (dump.verdict.nan_inputs)
    std::cout << fmt::format(
        "{} elements have a NaN input; the first is element {}\n",
        dump.verdict.nan_inputs, dump.verdict.first_nan_input);
}

void print_call_row(const Dump& dump) {
  Table table({{.name = "call"},
               {.name = "group"},
               {.name = "iteration"},
               {.name = "rank"},
               {.name = "size"},
               {.name = "options"},
               {.name = "transport"},
               {.name = "check"},
               {.name = "wrong"},
               {.name = "worst_rank"},
               {.name = "worst_element"}});
  table.add_row({describe(dump.call), dump.group, dump.iteration, dump.rank,
                 dump.size(), dump.options, dump.transport, dump.check,
                 dump.verdict.wrong, dump.worst_rank, dump.worst.element});
  table.print(std::cout, TableFormat::kJson);
}

void print_statistics(const Dump& dump, TableFormat format) {
  Table table({{.name = "elements of", .key = "of", .align = Align::kLeft},
               {.name = "count"},
               {.name = "NaN", .key = "nan"},
               {.name = "infinite"},
               {.name = "min"},
               {.name = "max"},
               {.name = "mean"}});
  const auto add = [&](const char* name, const std::vector<std::byte>& data) {
    const auto found = comm::statistics_of(dump.call.dtype, data);
    table.add_row({name, found.count, found.nan, found.infinite,
                   number(found.min, format), number(found.max, format),
                   number(found.mean, format)});
  };
  add("input", dump.input);
  add("output", dump.output);
  table.print(std::cout, format);
}

void print_comparison(const comm::Replay& replay, TableFormat format) {
  Table table({{.name = "compared", .align = Align::kLeft},
               {.name = "agree"},
               {.name = "elements"},
               {.name = "different"}});
  table.add_row({"output with reference", replay.output.is_good(), replay.count,
                 replay.output.wrong});
  table.add_row({"replay with reference", replay.replayed.is_good(),
                 replay.count, replay.replayed.wrong});
  table.add_row({"replay with output, bits", replay.different_bits == 0,
                 replay.count, replay.different_bits});
  table.print(std::cout, format);
}

std::string inputs_text(const std::vector<double>& inputs) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(inputs.size(), kInputsShown); ++i)
    texts.push_back(text_of(inputs[i]));
  if (inputs.size() > kInputsShown) texts.emplace_back("...");
  return join(texts, " ");
}

void print_wrong(const comm::Replay& replay, TableFormat format) {
  if (replay.wrong.empty()) return;
  Table table(
      {{.name = "element"},
       {.name = "output"},
       {.name = "reference"},
       {.name = "replay"},
       {.name = "error"},
       {.name = "allowed"},
       {.name = "fault", .align = Align::kLeft},
       {.name = "inputs by rank", .key = "inputs", .align = Align::kLeft}});
  for (const comm::DumpedElement& element : replay.wrong)
    table.add_row({element.found.element, number(element.found.result, format),
                   number(element.found.reference, format),
                   number(element.replayed, format),
                   number(element.found.error, format),
                   number(element.found.bound, format),
                   name_of(element.found.fault), inputs_text(element.inputs)});
  table.print(std::cout, format);
}

void print_extent(const Dump& dump, const comm::Replay& replay) {
  if (replay.is_whole) {
    std::cout << fmt::format("\nReplay of all elements, from {} dumps:\n",
                             dump.size());
    return;
  }
  std::cout << fmt::format(
      "\nReplay of elements {} to {}, around the largest error; to replay all "
      "elements, pass the dumps of all {} ranks:\n",
      replay.first, replay.first + replay.count - 1, dump.size());
}

void show(const DumpArgs& args) {
  const std::vector<Dump> dumps = read_all(args);
  const comm::Replay replay = comm::replay(dumps, args.elements);
  if (args.as_json) {
    print_call_row(dumps[0]);
    print_statistics(dumps[0], args.format());
    print_comparison(replay, args.format());
    return print_wrong(replay, args.format());
  }
  print_call(dumps[0]);
  std::cout << '\n';
  print_statistics(dumps[0], args.format());
  print_extent(dumps[0], replay);
  print_comparison(replay, args.format());
  std::cout << replay.conclusion(dumps[0]) << "\n\n";
  print_wrong(replay, args.format());
}

}  // namespace

void add_dump_command(CLI::App& app) {
  auto args = std::make_shared<DumpArgs>();
  CLI::App* command =
      app.add_subcommand("dump", "Show the dump files of a failed check");
  command->require_subcommand(1);
  CLI::App* show_command =
      command->add_subcommand("show", "Print a dump and replay its reduction");
  show_command
      ->add_option("files", args->files,
                   "Dump files, sheaf.dump.<rank>.<iteration>; if only one is "
                   "given, those of the other ranks are searched in its folder")
      ->required();
  show_command->add_option("--elements", args->elements,
                           "Number of wrong elements to show");
  show_command->add_flag("--json", args->as_json,
                         "Print one JSON object per row");
  show_command->callback([args] { show(*args); });
}

}  // namespace sheaf::cli

// sheaf data: lists datasets and their folders, and fetches them.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "sheaf/base/table.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/data/catalog/catalog.hpp"

namespace sheaf::cli {
namespace {

struct DataArgs {
  std::string name;
  data::GetOptions get;
  bool as_json = false;

  TableFormat format() const {
    return as_json ? TableFormat::kJson : TableFormat::kText;
  }
};

std::string shape_text(const data::CatalogEntry& entry) {
  return fmt::format("{}x{}x{}", entry.shape[0], entry.shape[1],
                     entry.shape[2]);
}

void list_datasets(const DataArgs& args) {
  Table table({{.name = "dataset", .align = Align::kLeft},
               {.name = "shape"},
               {.name = "classes"},
               {.name = "train"},
               {.name = "test"},
               {.name = "where", .align = Align::kLeft},
               {.name = "to get it", .key = "how", .align = Align::kLeft}});
  for (const data::CatalogEntry& entry : data::catalog()) {
    const std::string folder = data::find_dataset(entry.name);
    const bool is_there = !folder.empty();
    table.add_row({entry.name, shape_text(entry), entry.classes, entry.train,
                   entry.test, is_there ? Cell(folder) : Cell(),
                   is_there ? Cell() : Cell(entry.how_to_get)});
  }
  table.print(std::cout, args.format());
}

void get_dataset(const DataArgs& args) {
  const std::string folder = data::get_dataset(args.name, args.get);
  Table table({{.name = "file", .align = Align::kLeft},
               {.name = "bytes"},
               {.name = "crc32"}});
  for (const data::CheckedFile& file : data::check_dataset(args.name, folder))
    table.add_row({file.path, file.bytes, fmt::format("{:08x}", file.crc32)});
  table.print(std::cout, args.format());
  if (args.as_json) return;
  const data::CatalogEntry& entry = data::catalog_entry(args.name);
  std::cout << fmt::format(
      "{}: {} training and {} test examples, {}, {} classes; complete\n",
      entry.name, entry.train, entry.test, shape_text(entry), entry.classes);
}

void add_get(CLI::App& command, const std::shared_ptr<DataArgs>& args) {
  CLI::App* get = command.add_subcommand(
      "get", "Find or fetch a dataset, and check that it is complete");
  get->add_option("NAME", args->name, "mnist, fashion-mnist, cifar10, cifar100")
      ->required();
  get->add_option("--to", args->get.to, "Folder to store the files in");
  get->add_option("--from", args->get.from, "Search only this folder");
  get->add_flag("--json", args->as_json, "Print one JSON object per row");
  get->callback([args] { get_dataset(*args); });
}

}  // namespace

void add_data_command(CLI::App& app) {
  auto args = std::make_shared<DataArgs>();
  CLI::App* command =
      app.add_subcommand("data", "List, find, fetch and check datasets");
  command->require_subcommand(1);
  CLI::App* list = command->add_subcommand(
      "list", "List the known datasets and their folders");
  list->add_flag("--json", args->as_json, "Print one JSON object per row");
  list->callback([args] { list_datasets(*args); });
  add_get(*command, args);
}

}  // namespace sheaf::cli

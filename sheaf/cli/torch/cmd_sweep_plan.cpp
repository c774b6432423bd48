// Reads the jobs of `sheaf sweep`, checks each of them and finds out how far it
// has been run. Prints JSON for the command, which is built without libtorch;
// see sheaf/cli/sweep/sweep_plan.cpp.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/torch/rank_commands.hpp"
#include "sheaf/train/config/config.hpp"
#include "sheaf/train/config/sweep_file.hpp"
#include "sheaf/train/files/run_log.hpp"
#include "sheaf/train/setup/network_setup.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using train::GridJob;
using train::Setting;

struct SweepPlanArguments {
  std::string file;
  std::string output;
};

// The complete config of a run except its folder, as text to compare.
std::string settings_text(train::RunConfig config) {
  config.output.folder.clear();
  return train::print_config(train::complete(config));
}

// Replaces the prefix "--set key=value: ", which the user did not write, with
// the line of the jobs file.
std::string with_place(const GridJob& job, const std::string& message) {
  for (const Setting& one : job.settings) {
    const std::string given = concat("--set ", one.key, "=", one.value, ": ");
    if (message.rfind(given, 0) == 0)
      return one.place + message.substr(given.size());
  }
  return concat(message, " (job ", job.name, ")");
}

std::string settings_of(const GridJob& job, const fs::path& base) {
  try {
    return settings_text(train::read_config(base, job.overrides()));
  } catch (const UsageError& error) {
    throw UsageError(with_place(job, error.what()));
  }
}

// Whether the run in `folder` has these settings. Its config is parsed and
// printed again, so that keys added to Sheaf since then get their defaults.
bool has_settings(const fs::path& folder, const std::string& settings) {
  try {
    const fs::path file = folder / "config.yaml";
    return settings_text(train::read_config(file)) == settings;
  } catch (const Error&) {
    return false;
  }
}

bool has_ended(const fs::path& folder, int ranks) {
  const fs::path file = folder / "summary.json";
  if (!fs::exists(file)) return false;
  const auto summary = train::parse_summary_file(read_file(file));
  return summary.number("ranks") == static_cast<double>(ranks) &&
         (summary.ending == "finished" || summary.ending == "stopped early");
}

// "new", "begun", "finished", or "other" if the folder holds something else.
std::string state_of(const fs::path& folder, const GridJob& job,
                     const std::string& settings) {
  if (!fs::exists(folder) || fs::is_empty(folder)) return "new";
  if (!fs::exists(folder / "config.yaml")) {
    for (const fs::path& entry : entries_of(folder))
      if (entry.filename() != "output.txt") return "other";
    return "new";
  }
  if (!has_settings(folder, settings)) return "other";
  return has_ended(folder, job.ranks) ? "finished" : "begun";
}

void print_plan(const SweepPlanArguments& arguments) {
  train::SweepFile file = train::read_sweep_file(arguments.file);
  if (!arguments.output.empty()) file.output = arguments.output;
  Json jobs = Json::array();
  for (const GridJob& job : train::make_grid(file)) {
    const fs::path folder = file.output / job.name;
    const std::string settings = settings_of(job, file.base);
    jobs.push_back({{"name", job.name},
                    {"folder", folder.string()},
                    {"ranks", job.ranks},
                    {"settings", job.overrides()},
                    {"state", state_of(folder, job, settings)}});
  }
  const Json plan{{"base", file.base.string()},
                  {"output", file.output.string()},
                  {"jobs", jobs}};
  try {
    std::cout << plan.dump() << std::endl;
  } catch (const Json::exception&) {  // the YAML file is UTF-8
    throw UsageError(
        concat("a folder's name is not UTF-8: ", printable(file.base.string()),
               " or ", printable(file.output.string()), "; rename it"));
  }
}

}  // namespace

void add_sweep_plan_command(CLI::App& app) {
  auto arguments = std::make_shared<SweepPlanArguments>();
  CLI::App* command =
      app.add_subcommand("sweep-plan", "Print the jobs of sheaf sweep");
  command->add_option("JOBS", arguments->file)->required();
  command->add_option("--output", arguments->output);
  command->callback([arguments] { print_plan(*arguments); });
}

}  // namespace sheaf::cli

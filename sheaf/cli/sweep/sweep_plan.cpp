#include <stdio.h>

#include <array>
#include <iostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/base/table.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/process.hpp"
#include "sheaf/cli/sweep/sweep.hpp"
#include "sheaf/cli/sweep/sweep_record.hpp"

namespace sheaf::cli {
namespace {

// The standard output of a command; standard error is inherited. Throws
// ExitWith if the command fails.
std::string output_of(const std::vector<std::string>& command) {
  FILE* in = ::popen((shell_quote(command) + " </dev/null").c_str(), "r");
  if (!in) throw IoError(concat("cannot start ", command[0]));
  std::string text;
  std::array<char, 4096> piece;
  while (const std::size_t count = ::fread(piece.data(), 1, piece.size(), in))
    text.append(piece.data(), count);
  if (const int code = code_of_wait_status(::pclose(in))) throw ExitWith{code};
  return text;
}

JobState state_named(const std::string& name) {
  if (name == "finished") return JobState::kFinished;
  if (name == "begun") return JobState::kBegun;
  return name == "other" ? JobState::kOther : JobState::kNew;
}

std::string_view name_of(JobState state) {
  switch (state) {
    case JobState::kFinished:
      return "finished";
    case JobState::kBegun:
      return "to resume";
    case JobState::kOther:
      return "to rerun";
    default:
      return "to run";
  }
}

// A run's files record its settings but not its number of ranks, which is
// compared with sweep.json. A begun run with another number starts again.
void check_ranks(SweepPlan& plan) {
  SweepRecord record(plan.output / "sweep.json");
  for (SweepJob& job : plan.jobs) {
    const int ranks = record.of(job).ranks;
    if (job.state == JobState::kBegun && ranks != 0 && ranks != job.ranks)
      job.state = JobState::kOther;
  }
}

}  // namespace

SweepPlan plan_sweep(const std::string& file, const std::string& output) {
  std::vector<std::string> command{torch_program(), "sweep-plan", file};
  if (!output.empty()) command.insert(command.end(), {"--output", output});
  const JsonSource source{"the output of " + shell_quote(command)};
  const nlohmann::json json = parse_json(output_of(command), source);
  const JsonValue read(json, source);
  SweepPlan plan;
  plan.base = read.at("base").text();
  plan.output = read.at("output").text();
  for (const JsonValue& job : read.at("jobs").items())
    plan.jobs.push_back({job.at("name").text(), job.at("folder").text(),
                         job.at("ranks").whole(1),
                         job.at("settings").as<std::vector<std::string>>(),
                         state_named(job.at("state").text())});
  check_ranks(plan);
  return plan;
}

std::vector<std::string> train_words(const SweepPlan& plan,
                                     const SweepJob& job) {
  std::vector<std::string> words{"train", plan.base.string(), "-n",
                                 std::to_string(job.ranks)};
  for (const std::string& one : job.settings)
    words.insert(words.end(), {"--set", one});
  // With --resume, a folder without a checkpoint starts from the first step.
  words.insert(words.end(), {"--output", job.folder.string(), "--resume"});
  return words;
}

void print_sweep(const SweepPlan& plan, bool as_json) {
  Table table({{.name = "job", .align = Align::kLeft},
               {.name = "ranks"},
               {.name = "settings", .align = Align::kLeft},
               {.name = "state", .align = Align::kLeft}});
  for (const SweepJob& job : plan.jobs)
    table.add_row(
        {job.name, job.ranks, join(job.settings, " "), name_of(job.state)});
  table.print(std::cout, as_json ? TableFormat::kJson : TableFormat::kText);
}

}  // namespace sheaf::cli

// sheaf trace: starts sheaf-torch on several ranks to record training steps.
#include <memory>

#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kTraceFooter =
    "Examples:\n"
    "  sheaf trace examples/fashion_mnist.yaml -o lenet.json.gz\n"
    "  sheaf trace a.yaml -n 2 --steps 5 -o a.json   a.rank0.json, "
    "a.rank1.json\n"
    "  sheaf trace a.yaml --precision bf16 -o bf16.json.gz\n"
    "  sheaf trace a.yaml --curvature 100 -o f32.json.gz\n"
    "Each rank records the steps after the warm-up: operators, kernels,\n"
    "exchanges, allocations, and statistics of the layers. sheaf predict and\n"
    "Perfetto read the file. docs/reference/trace.md documents its format.";

struct TraceArguments {
  LaunchOptions launch;
  std::string config;
  std::vector<std::string> sets;
  std::string output;
  std::string plan;
  int warmup = 5;
  int steps = 3;
  int curvature = 0;
};

void add_tracing_options(CLI::App& command, TraceArguments& arguments) {
  command
      .add_option("CONFIG", arguments.config,
                  "Config of the run, in YAML, as for sheaf train")
      ->required();
  command
      .add_option("--set", arguments.sets,
                  "key=value, overrides the config; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command
      .add_option("-o,--output", arguments.output,
                  "Trace file, .json or .json.gz; with several ranks, each "
                  "writes its own, such as a.rank1.json.gz")
      ->required();
  CLI::Option* plan = command.add_option(
      "--plan", arguments.plan, "Train under this plan, written by sheaf plan");
  command
      .add_option("--precision", arguments.plan,
                  "Precision of all layers: f32 (default), tf32, bf16, f16 or "
                  "int8")
      ->excludes(plan)
      ->check(CLI::IsMember({"f32", "tf32", "bf16", "f16", "int8"}));
  command
      .add_option("--warmup", arguments.warmup, "Steps to run before recording")
      ->capture_default_str();
  command.add_option("--steps", arguments.steps, "Steps to record")
      ->capture_default_str();
  command
      .add_option("--curvature", arguments.curvature,
                  "Number of samples to estimate the curvature of the loss in "
                  "each layer's weight, for sheaf plan --indicator hessian; "
                  "0: no estimate")
      ->capture_default_str();
}

std::vector<std::string> traced_words(const TraceArguments& arguments) {
  std::vector<std::string> words{"trace",    arguments.config,
                                 "-o",       arguments.output,
                                 "--warmup", std::to_string(arguments.warmup),
                                 "--steps",  std::to_string(arguments.steps)};
  if (arguments.curvature != 0)
    words.insert(words.end(),
                 {"--curvature", std::to_string(arguments.curvature)});
  if (!arguments.plan.empty())
    words.insert(words.end(), {"--plan", arguments.plan});
  for (const std::string& set : arguments.sets)
    words.insert(words.end(), {"--set", set});
  return words;
}

void trace(TraceArguments& arguments) {
  LaunchOptions& launch = arguments.launch;
  const std::vector<std::string> words = traced_words(arguments);
  if (launch.ranks == 1 && launch.hosts.empty() && launch.hostfile.empty() &&
      !launch.dry_run)
    become_torch_program(words);
  launch.command = {torch_program()};
  launch.command.insert(launch.command.end(), words.begin(), words.end());
  throw ExitWith{cli::launch(launch)};
}

}  // namespace

void add_trace_command(CLI::App& app) {
  auto arguments = std::make_shared<TraceArguments>();
  CLI::App* command = app.add_subcommand(
      "trace", "Record training steps, for sheaf predict and Perfetto");
  command->footer(kTraceFooter);
  add_tracing_options(*command, *arguments);
  add_host_options(*command, arguments->launch, /*ranks=*/1);
  add_run_options(*command, arguments->launch);
  command->callback([arguments] { trace(*arguments); });
}

}  // namespace sheaf::cli

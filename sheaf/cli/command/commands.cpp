#include "sheaf/cli/command/commands.hpp"

#include <algorithm>
#include <exception>
#include <iostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/failure_note.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/version.hpp"

namespace sheaf::cli {
namespace {

constexpr int kUsageExitCode = 2;

// Replaces "--" while CLI11 parses the command line: CLI11 drops "--", so its
// position would be lost.
const std::string kSeparator = "\x1f--";

// CMake generates the list from the cmd_*.cpp files in the source folder.
void add_commands(CLI::App& app) {
#define SHEAF_COMMAND(name) add_##name##_command(app);
#include "sheaf_commands.inc"
#undef SHEAF_COMMAND
}

std::string failure_text(const CLI::App* app, const CLI::Error& error) {
  const auto chosen = app->get_subcommands();
  const std::string command = chosen.empty() ? "" : chosen[0]->get_name() + " ";
  return concat("sheaf: ", error.what(), "; see sheaf ", command, "--help\n");
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* one : app.get_subcommands({}))
    if (one->get_name() == name) return one;
  return nullptr;
}

void check_command(const CLI::App& app, const std::string& word) {
  if (word.rfind('-', 0) == 0 || find_command(app, word)) return;
  std::vector<std::string> names;
  for (const CLI::App* one : app.get_subcommands({}))
    if (!one->get_group().empty()) names.push_back(one->get_name());
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string hint = did_you_mean(word, views);
  throw UsageError(concat("unknown command '", word, "'", hint,
                          "; the commands are ", join(names, ", ")));
}

// Accepts "-paths" for "--paths": CLI11 would parse it as five one-letter
// options.
void accept_single_dashes(const CLI::App& command,
                          std::vector<std::string>& words) {
  const auto is_long = [&](const std::string& word) {
    return word.size() > 2 && word[0] == '-' && word[1] != '-' &&
           command.get_option_no_throw('-' + word) != nullptr;
  };
  for (std::string& word : words)
    if (is_long(word)) word.insert(0, 1, '-');
}

// The arguments in reverse order, as CLI11 expects them.
std::vector<std::string> words_for(const CLI::App& app, int argc,
                                   const char* const* argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  check_command(app, words[0]);
  const CLI::App* command = find_command(app, words[0]);
  if (command && command->get_prefix_command())
    std::replace(words.begin(), words.end(), std::string("--"), kSeparator);
  else if (command)
    accept_single_dashes(*command, words);
  std::reverse(words.begin(), words.end());
  return words;
}

int parse_and_run(CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2) {
    std::cerr << app.help();
    return kUsageExitCode;
  }
  try {
    app.parse(words_for(app, argc, argv));
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageExitCode;
  }
  return 0;
}

}  // namespace

std::vector<std::string> program_of(const CLI::App& command) {
  std::vector<std::string> words = command.remaining();
  if (words.empty()) return words;
  if (words[0] == kSeparator)
    words.erase(words.begin());
  else
    SHEAF_CHECK(words[0][0] != '-', "unknown option '", words[0],
                "'; see sheaf ", command.get_name(), " --help");
  std::replace(words.begin(), words.end(), kSeparator, std::string("--"));
  return words;
}

int run_cli(int argc, const char* const* argv) {
  CLI::App app{"Sheaf: distributed training from C++", "sheaf"};
  app.set_version_flag("--version", std::string("sheaf ") + SHEAF_VERSION);
  app.require_subcommand(1);
  app.failure_message(failure_text);
  try {
    add_commands(app);
    // Commands that are added later would inherit it.
    app.footer("Run sheaf COMMAND --help for the options of a command.");
    return parse_and_run(app, argc, argv);
  } catch (const ExitWith& exit) {
    return exit.code;
  } catch (const std::exception& error) {
    std::cerr << "sheaf: " << error.what() << std::endl;
    leave_failure_note(cause_of(error), error.what());
    return exit_code(error);
  }
}

}  // namespace sheaf::cli

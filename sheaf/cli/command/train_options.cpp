#include "sheaf/cli/command/train_options.hpp"

namespace sheaf::cli {
namespace {

// The one list of the options; parser and writer visit it.
template <class Visitor, class Arguments>
void visit_train_options(Visitor& visitor, Arguments& arguments) {
  visitor.config("CONFIG", arguments.config, "Config of the run, in YAML");
  visitor.list("--set", arguments.sets,
               "key=value, overrides the config, such as epochs=3; may be "
               "repeated");
  visitor.text("--output", arguments.output,
               "Folder of the run (default: output.folder of the config, "
               "or runs/<name>-<number>)");
  visitor.text("--plan", arguments.plan,
               "Plan file, written by sheaf plan: precision and exchange "
               "of each layer; overrides the config's plan");
  visitor.flag("--resume", arguments.is_resumed,
               "Resume from the latest checkpoint in the folder");
  visitor.flag("--accept-changes", arguments.accepts_changes,
               "With --resume: accept changed settings even if they "
               "change the result");
  visitor.flag("--print-config", arguments.prints_config,
               "Print the complete config, including defaults");
  visitor.flag("--explain", arguments.explains,
               "Run one step and print the data it exchanges, by layer");
}

class OptionAdder {
 public:
  explicit OptionAdder(CLI::App& command) : command_(command) {}

  void config(const char* name, std::string& value, const char* help) {
    command_.add_option(name, value, help)->required();
  }
  void list(const char* name, std::vector<std::string>& values,
            const char* help) {
    command_.add_option(name, values, help)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->allow_extra_args(false);
  }
  void text(const char* name, std::string& value, const char* help) {
    command_.add_option(name, value, help);
  }
  void flag(const char* name, bool& value, const char* help) {
    command_.add_flag(name, value, help);
  }

 private:
  CLI::App& command_;
};

class WordWriter {
 public:
  void config(const char*, const std::string& value, const char*) {
    words.push_back(value);
  }
  void list(const char* name, const std::vector<std::string>& values,
            const char*) {
    for (const std::string& value : values)
      words.insert(words.end(), {name, value});
  }
  void text(const char* name, const std::string& value, const char*) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  }
  void flag(const char* name, bool value, const char*) {
    if (value) words.emplace_back(name);
  }

  std::vector<std::string> words;
};

}  // namespace

void add_train_options(CLI::App& command, TrainArguments& arguments) {
  OptionAdder adder(command);
  visit_train_options(adder, arguments);
}

std::vector<std::string> train_words(const TrainArguments& arguments) {
  WordWriter writer;
  visit_train_options(writer, arguments);
  return writer.words;
}

}  // namespace sheaf::cli

// sheaf data: forwarded to sheaf-torch.
#include "sheaf/cli/command/commands.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {

void add_data_command(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("data", "List, find, fetch and check datasets");
  command->prefix_command();
  command->set_help_flag();  // sheaf-torch prints the help
  command->callback([command] {
    std::vector<std::string> words{"data"};
    for (const std::string& word : command->remaining()) words.push_back(word);
    become_torch_program(words);
  });
}

}  // namespace sheaf::cli

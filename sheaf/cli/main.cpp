#include "sheaf/cli/command/commands.hpp"

int main(int argc, char** argv) { return sheaf::cli::run_cli(argc, argv); }

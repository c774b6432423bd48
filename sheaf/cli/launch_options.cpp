#include "sheaf/cli/launch_options.hpp"

#include "sheaf/base/error.hpp"

namespace sheaf::cli {

void add_launch_options(CLI::App& command, LaunchOptions& launch, int ranks) {
  command
      .add_option(
          "-n,--ranks", launch.ranks,
          concat("Number of ranks; else what the hosts offer, or ", ranks))
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("N");
  auto* hosts = command.add_option("--hosts", launch.hosts,
                                   "Hosts and their slots, such as a:2,b:2");
  command
      .add_option("--hostfile", launch.hostfile, "File with one host per line")
      ->excludes(hosts);
  command.add_option("--rankfile", launch.rankfile,
                     "Open MPI rank file: hosts and cores of each rank");
  command.add_option("--topology", launch.topology,
                     "Sizes of the tiers, such as 4x3: ranks per host x hosts");
  command.add_option("--agent", launch.agent,
                     "Starts daemons on other hosts in place of ssh");
  command
      .add_option("--mpi-arg", launch.mpi_args,
                  "An argument for mpirun; may be given many times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
  command.add_flag("-v,--verbose", launch.verbose,
                   "Print the line of mpirun first");
}

}  // namespace sheaf::cli

#include "sheaf/base/error.hpp"
#include "sheaf/base/units.hpp"
#include "sheaf/cli/launch/launcher.hpp"

namespace sheaf::cli {

void add_host_options(CLI::App& command, LaunchOptions& launch, int ranks) {
  command
      .add_option("-n,--ranks", launch.ranks,
                  concat("Number of ranks (default: slots of the hosts, or ",
                         ranks, ")"))
      ->check(CLI::Range(1, 1 << 20).description(""))
      ->type_name("N");
  auto* hosts = command.add_option("--hosts", launch.hosts,
                                   "Hosts and their slots, such as a:2,b:2");
  command
      .add_option("--hostfile", launch.hostfile, "File with one host per line")
      ->excludes(hosts);
  command.add_option("--topology", launch.topology,
                     "Sizes of the tiers, such as 4x3: ranks per host x hosts");
  command.add_option("--agent", launch.agent,
                     "Program that starts daemons on other hosts instead of "
                     "ssh");
  command.add_flag("-v,--verbose", launch.verbose,
                   "Print the mpirun command line first");
}

void add_launch_options(CLI::App& command, LaunchOptions& launch, int ranks) {
  add_host_options(command, launch, ranks);
  command.add_option("--rankfile", launch.rankfile,
                     "Open MPI rank file: host and cores of each rank");
  command
      .add_option("--mpi-arg", launch.mpi_args,
                  "Extra argument for mpirun; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->allow_extra_args(false);
}

void add_run_options(CLI::App& command, LaunchOptions& launch) {
  command.add_option("--interface", launch.interface,
                     "Network interface between hosts, such as eth0");
  command.add_option_function<std::string>(
      "--timeout",
      [&launch](const std::string& text) {
        if (text.empty()) return;
        launch.timeout =
            std::chrono::ceil<std::chrono::milliseconds>(parse_duration(text));
      },
      "Stop the run after this time, such as 30s, 5m, 8h");
  command.add_flag("--encrypt", launch.encrypts,
                   "Encrypt connections between hosts: TCP instead of MPI");
  command.add_flag("--dry-run", launch.dry_run,
                   "Print the mpirun command line without running it");
}

}  // namespace sheaf::cli

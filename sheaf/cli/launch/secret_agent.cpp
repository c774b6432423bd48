#include "sheaf/cli/launch/secret_agent.hpp"

#include <fmt/format.h>

#include <cstdlib>

#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;

// Called as AGENT [-OPTION]... HOST WORD..., as ssh is. The words are evaluated
// by the shell of the user on that host, which may be any.
constexpr const char* kScript = R"(#!/bin/sh
while :; do case $1 in -*) shift ;; *) break ;; esac; done
host=$1
shift
words=$(printf '%s' "$*" | sed "s/'/'\\\\''/g")
script='IFS= read -r SHEAF_SECRET; export SHEAF_SECRET; exec "${{SHELL:-/bin/sh}}" -c "$0"'
exec {0} "$host" "sh -c '$script' '$words'" <{1}
)";

}  // namespace

SecretAgent::SecretAgent(const std::string& shell, const std::string& secret)
    : folder_(fs::temp_directory_path(), "sheaf-run-") {
  write_file_atomically(secret_file(), secret + "\n");
  write_file_atomically(
      program(), fmt::format(kScript, shell, shell_quote({secret_file()})));
  fs::permissions(secret_file(), fs::perms::owner_read);
  fs::permissions(program(), fs::perms::owner_read | fs::perms::owner_exec);
}

std::string remote_shell(MpiKind kind, const std::string& chosen) {
  if (!chosen.empty()) return chosen;
  const char* name = kind == MpiKind::kOpenMpi ? "OMPI_MCA_plm_rsh_agent"
                                               : "HYDRA_LAUNCHER_EXEC";
  const char* value = std::getenv(name);
  // Open MPI takes a list of alternatives.
  const std::string text = value ? value : "ssh";
  return text.substr(0, text.find(" : "));
}

}  // namespace sheaf::cli

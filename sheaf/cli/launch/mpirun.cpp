#include "sheaf/cli/launch/mpirun.hpp"

#include <stdio.h>

#include <array>
#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <regex>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/launch/process.hpp"

namespace sheaf::cli {
namespace {

std::string choose_mpiexec() {
  if (const char* chosen = std::getenv("SHEAF_MPIEXEC")) {
    std::string path = find_executable(chosen);
    SHEAF_CHECK(!path.empty(), "SHEAF_MPIEXEC is '", chosen,
                "', which is not a program; set it to an mpirun or mpiexec");
    return path;
  }
  for (const char* name : {SHEAF_BUILT_WITH_MPIEXEC, "mpirun", "mpiexec"})
    if (std::string path = find_executable(name); !path.empty()) return path;
  throw UsageError(
      "mpirun not found; install Open MPI (openmpi-bin) or MPICH (mpich), or "
      "set SHEAF_MPIEXEC to the path of an mpirun");
}

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> in(::popen(command.c_str(), "r"),
                                                 ::pclose);
  std::string text;
  std::array<char, 4096> piece;
  while (in && ::fgets(piece.data(), piece.size(), in.get()))
    text += piece.data();
  return text;
}

std::string first_match(const std::string& text, const char* pattern) {
  std::smatch match;
  return std::regex_search(text, match, std::regex(pattern)) ? match.str(1)
                                                             : "";
}

using Words = std::vector<std::string>;

void add(Words& words, std::initializer_list<std::string> more) {
  words.insert(words.end(), more);
}

std::string host_text(const std::vector<topo::HostSlots>& hosts) {
  std::string text;
  for (const topo::HostSlots& host : hosts)
    text += concat(text.empty() ? "" : ",", host.name, ":", host.slots);
  return text;
}

// Each rank of a host gets an equal share of its cores, so that a program with
// threads has cores for them. Returns 0 (no binding) if there are more ranks
// than cores or the cores are unknown.
int cores_per_rank(const MpiRequest& request) {
  return request.is_local ? request.cores / request.ranks : 0;
}

void add_open_mpi_placement(Words& words, const MpiRequest& request) {
  if (!request.hosts.empty()) add(words, {"--host", host_text(request.hosts)});
  if (!request.rankfile.empty()) {
    add(words, {"-rf", request.rankfile});
    return;
  }
  if (request.has_scheduler) return;
  const int share = cores_per_rank(request);
  if (request.is_local && share == 0) add(words, {"--oversubscribe"});
  // By slot: fill one host after the other, as a topology 4x3 expects.
  if (share > 0)
    add(words, {"--map-by", concat("slot:PE=", share), "--bind-to", "core"});
  else
    add(words, {"--map-by", "slot", "--bind-to", "none"});
}

Words open_mpi_command(const MpiInstall& mpi, const MpiRequest& request) {
  Words words{mpi.path};
  if (request.is_root) add(words, {"--allow-run-as-root"});
  add(words, {"-n", concat(request.ranks)});
  add_open_mpi_placement(words, request);
  if (!request.agent.empty())
    // The folder of a local agent may be mounted without permission to execute.
    add(words, {"--mca", "plm_rsh_agent",
                (request.has_local_agent ? "/bin/sh " : "") + request.agent});
  // Otherwise daemons start others.
  if (request.has_local_agent)
    add(words, {"--mca", "plm_rsh_no_tree_spawn", "1"});
  if (!request.interface.empty())
    add(words, {"--mca", "btl_tcp_if_include", request.interface, "--mca",
                "oob_tcp_if_include", request.interface});
  for (const std::string& name : request.exports) add(words, {"-x", name});
  words.insert(words.end(), request.extra.begin(), request.extra.end());
  return words;
}

Words mpich_command(const MpiInstall& mpi, const MpiRequest& request) {
  SHEAF_CHECK(request.rankfile.empty(), "rank files need Open MPI, and ",
              mpi.path, " is ", mpi.name(),
              "; use --hosts, or set SHEAF_MPIEXEC to the mpirun of Open MPI");
  Words words{mpi.path};
  if (!request.hosts.empty()) add(words, {"-hosts", host_text(request.hosts)});
  const int share = cores_per_rank(request);
  if (!request.has_scheduler && share > 0)
    add(words, {"-bind-to", concat("core:", share)});
  if (!request.agent.empty()) add(words, {"-launcher-exec", request.agent});
  if (!request.interface.empty()) add(words, {"-iface", request.interface});
  add(words, {"-genvall"});  // exports all variables, so no names are needed
  words.insert(words.end(), request.extra.begin(), request.extra.end());
  add(words, {"-n", concat(request.ranks)});
  return words;
}

}  // namespace

std::string MpiInstall::name() const {
  const std::string family = kind == MpiKind::kOpenMpi ? "Open MPI" : "MPICH";
  return version.empty() ? family : family + " " + version;
}

MpiInstall find_mpi() {
  const std::string path = choose_mpiexec();
  return parse_mpi_version(
      path, output_of(shell_quote({path, "--version"}) + " 2>&1 </dev/null"));
}

MpiInstall parse_mpi_version(const std::string& path, std::string_view output) {
  const std::string text(output);
  if (text.find("Open MPI") != std::string::npos ||
      text.find("OpenRTE") != std::string::npos)
    return {path, MpiKind::kOpenMpi,
            first_match(text, R"(\((?:Open MPI|OpenRTE)\) ([0-9][^\s]*))")};
  // Hydra is the launcher of MPICH and its derivatives.
  if (text.find("HYDRA") != std::string::npos ||
      text.find("Intel(R) MPI") != std::string::npos)
    return {path, MpiKind::kMpich,
            first_match(text, R"(Version:?\s+([0-9][^\s]*))")};
  throw UsageError(concat("'", path, " --version' names neither Open MPI nor ",
                          "MPICH; set SHEAF_MPIEXEC to the mpirun of one"));
}

std::vector<std::string> mpi_command(const MpiInstall& mpi,
                                     const MpiRequest& request) {
  return mpi.kind == MpiKind::kOpenMpi ? open_mpi_command(mpi, request)
                                       : mpich_command(mpi, request);
}

}  // namespace sheaf::cli

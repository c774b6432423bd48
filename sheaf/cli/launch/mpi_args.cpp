#include "sheaf/cli/launch/mpi_args.hpp"

#include <initializer_list>

#include "sheaf/base/error.hpp"

namespace sheaf::cli {
namespace {

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
    add(words, {"--mca", "plm_rsh_agent", request.agent});
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

std::vector<std::string> mpi_command(const MpiInstall& mpi,
                                     const MpiRequest& request) {
  return mpi.kind == MpiKind::kOpenMpi ? open_mpi_command(mpi, request)
                                       : mpich_command(mpi, request);
}

}  // namespace sheaf::cli

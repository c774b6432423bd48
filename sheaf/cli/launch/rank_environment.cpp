#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "sheaf/base/error.hpp"
#include "sheaf/cli/launch/launcher.hpp"
#include "sheaf/cli/launch/process.hpp"
#include "sheaf/comm/network/secret.hpp"
#include "sheaf/comm/transport/launch_environment.hpp"
#include "sheaf/topo/options.hpp"

namespace sheaf::cli {
namespace {

constexpr const char* kSecret = "SHEAF_SECRET";

bool is_set(const char* name) { return std::getenv(name) != nullptr; }

std::string name_of(const std::string& entry) {
  return entry.substr(0, entry.find('='));
}

// The user's SHEAF_OPTIONS with the dimensions of --topology.
std::string merged_options(const topo::Dims& dims) {
  topo::Options options = topo::options_from_environment();
  options.dims = dims;
  return topo::text_of(options);
}

// The host of rank 0, which is the first one.
std::string first_host(const MpiRequest& request) {
  if (request.is_local) return "127.0.0.1";
  if (!request.hosts.empty()) return request.hosts.front().name;
  return comm::expand_node_list(variable("SLURM_JOB_NODELIST")).front();
}

// Below the ports that the kernel assigns to connections.
std::string random_port() {
  const comm::Bytes32 random = comm::random_bytes();
  return concat(20000 + (random[0] * 256 + random[1]) % 10000);
}

}  // namespace

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::vector<std::string> rank_environment(const LaunchOptions& options,
                                          const RankPlacement& place) {
  std::vector<std::string> entries;
  const auto set = [&](const char* name, const std::string& value) {
    entries.push_back(concat(name, "=", value));
  };
  if (place.dims) set("SHEAF_OPTIONS", merged_options(*place.dims));
  if (!options.interface.empty()) set("SHEAF_INTERFACE", options.interface);
  if (!is_set("SHEAF_JOB"))
    set("SHEAF_JOB", "run-" + comm::new_secret().substr(0, 16));
  if (!is_set(kSecret) && !is_set("SHEAF_SECRET_FILE"))
    set(kSecret, comm::new_secret());
  if (!options.encrypts) return entries;
  set("SHEAF_ENCRYPT", "1");
  set("MASTER_ADDR", first_host(place.request));
  set("MASTER_PORT", random_port());
  return entries;
}

std::vector<std::string> names_to_export(
    const std::vector<std::string>& environment) {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string name = name_of(*entry);
    if (name == "PATH" || name == "LD_LIBRARY_PATH" ||
        name.rfind("SHEAF_", 0) == 0)
      names.push_back(name);
  }
  for (const std::string& entry : environment)
    if (std::find(names.begin(), names.end(), name_of(entry)) == names.end())
      names.push_back(name_of(entry));
  return names;
}

std::string text_of_environment(const std::vector<std::string>& environment) {
  std::string text;
  for (const std::string& entry : environment) {
    const std::string name = name_of(entry);
    if (name == kSecret) continue;
    text += name + "=" + shell_quote({entry.substr(name.size() + 1)}) + " ";
  }
  return text;
}

}  // namespace sheaf::cli

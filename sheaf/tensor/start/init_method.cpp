#include <array>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/comm/transport/launch_environment.hpp"
#include "sheaf/tensor/start/rendezvous.hpp"

namespace sheaf::tensor {
namespace {

// A number and its source, for error messages.
struct Given {
  std::optional<int> value{};
  std::string from{};
};

struct Url {
  std::string text;
  std::string scheme;
  std::string rest;  // between :// and ?
  std::map<std::string, std::string> query;
};

int parse_number(const std::string& text, const std::string& from) {
  int value = 0;
  const auto* end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  SHEAF_CHECK(error == std::errc() && at == end && value >= 0, from, "='", text,
              "' is not a non-negative integer");
  return value;
}

std::uint16_t parse_port(const std::string& text, const std::string& from) {
  const int port = parse_number(text, from);
  SHEAF_CHECK(port >= 1 && port <= 65535, from, "=", text,
              " is not a valid port; use 1 to 65535, such as 29500");
  return static_cast<std::uint16_t>(port);
}

Given from_environment(const char* name) {
  const char* text = std::getenv(name);
  if (!text) return {};
  return {parse_number(text, name), name};
}

Given from_url(const Url& url, const std::string& key) {
  const auto found = url.query.find(key);
  if (found == url.query.end()) return {};
  const std::string from = concat(key, " of ", url.text);
  return {parse_number(found->second, from), from};
}

// The value from the init_method or the option; they must not contradict.
Given agree(const Given& method, int option, const std::string& name) {
  Given caller{option >= 0 ? std::optional(option) : std::nullopt,
               concat("the option ", name)};
  if (!caller.value) return method;
  SHEAF_CHECK(!method.value || *method.value == *caller.value, name,
              " is given twice: ", method.from, " is ", *method.value, ", ",
              caller.from, " is ", *caller.value,
              "; omit one, or set both to the same value");
  return caller;
}

int require(const Given& given, const std::string& hint) {
  SHEAF_CHECK(given.value, hint);
  return *given.value;
}

Url parse_url(const std::string& text) {
  const std::size_t colon = text.find("://");
  SHEAF_CHECK(colon != std::string::npos, "init_method '", text,
              "' is not a URL; allowed: env://, "
              "tcp://host:port?rank=&world_size=, file:///path");
  const std::size_t question = std::min(text.find('?'), text.size());
  Url url{text,
          text.substr(0, colon),
          text.substr(colon + 3, question - colon - 3),
          {}};
  if (question == text.size()) return url;
  for (const auto part :
       split(std::string_view(text).substr(question + 1), '&')) {
    if (part.empty()) continue;
    const std::string key(part.substr(0, part.find('=')));
    SHEAF_CHECK(key.size() < part.size(), "'", part, "' in ", text,
                " is not key=value");
    constexpr std::array<std::string_view, 2> kKeys{"rank", "world_size"};
    SHEAF_CHECK(key == kKeys[0] || key == kKeys[1], "unknown key '", key,
                "' in ", text, "; allowed: rank, world_size",
                did_you_mean(key, kKeys));
    url.query[key] = part.substr(key.size() + 1);
  }
  return url;
}

void read_ranks(MeetingPlace& place, const Given& rank, const Given& size,
                const std::string& rank_hint, const std::string& size_hint) {
  place.rank = require(rank, rank_hint);
  place.world_size = require(size, size_hint);
  place.rank_from = rank.from;
  place.world_size_from = size.from;
  SHEAF_CHECK(place.world_size >= 1, size.from,
              "=0: there must be at least one rank");
  SHEAF_CHECK(place.rank < place.world_size, rank.from, "=", place.rank,
              " but ", size.from, "=", place.world_size, "; ranks are 0 to ",
              place.world_size - 1);
}

void read_ranks_of_url(MeetingPlace& place, const Url& url,
                       const ProcessGroupOptions& options) {
  const auto hint = [&](const std::string& key) {
    return concat(key, " is missing: write ", url.scheme, "://", url.rest, "?",
                  key, "=... or set the option ", key);
  };
  read_ranks(
      place, agree(from_url(url, "rank"), options.rank, "rank"),
      agree(from_url(url, "world_size"), options.world_size, "world_size"),
      hint("rank"), hint("world_size"));
}

std::string environment(const char* name, const std::string& what) {
  const char* text = std::getenv(name);
  SHEAF_CHECK(text && *text, "env:// needs the variable ", name, ", which is ",
              text ? "empty" : "not set", "; set it to ", what,
              ", or start the program with torchrun, srun or mpirun");
  return text;
}

void read_address(MeetingPlace& place) {
  place.host_from = "MASTER_ADDR";
  place.port_from = "MASTER_PORT";
  place.host = environment("MASTER_ADDR", "the host of rank 0");
  place.port =
      parse_port(environment("MASTER_PORT", "a free port of rank 0's host"),
                 "MASTER_PORT");
}

// torchrun's agent may serve the store. Its keys survive a restart of the
// workers, so each attempt has a separate prefix.
void read_agent(MeetingPlace& place) {
  const char* agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
  place.has_server = agent && std::string(agent) == "True";
  if (const char* count = std::getenv("TORCHELASTIC_RESTART_COUNT"))
    place.prefix = concat("worker/attempt_", count, "/");
}

// Rank 0 is on the step's first host. MASTER_ADDR and MASTER_PORT override
// Slurm's variables.
void read_slurm_address(MeetingPlace& place, const comm::SlurmTask& task) {
  const char* address = std::getenv("MASTER_ADDR");
  const char* port = std::getenv("MASTER_PORT");
  SHEAF_CHECK((address && port) || !task.is_heterogeneous,
              "SLURM_HET_SIZE: a heterogeneous job has several node lists; set "
              "MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free "
              "port there");
  place.host_from =
      address ? "MASTER_ADDR" : concat("the first host of ", task.nodes_from);
  place.host_hint = "set MASTER_ADDR";
  SHEAF_CHECK(address || !task.nodes.empty(), "srun started this process, ",
              "but ", task.nodes_from,
              " is not set; set MASTER_ADDR to the host of task 0");
  place.host = address ? address : comm::expand_node_list(task.nodes).front();
  place.port_from =
      port ? "MASTER_PORT" : "the port of this job step (or MASTER_PORT)";
  place.port = port ? parse_port(port, "MASTER_PORT") : comm::port_of(task);
  place.prefix = concat("slurm/", task.job, ".", task.step, "/");
  const char* here = std::getenv("SLURMD_NODENAME");
  SHEAF_CHECK(address || !here || task.rank != 0 || place.host == here,
              "task 0 runs on ", here ? here : "", ", which is not ",
              place.host_from, " (", place.host,
              "); set MASTER_ADDR to the host of task 0 in all tasks");
}

MeetingPlace from_slurm(const comm::SlurmTask& task) {
  MeetingPlace place;
  place.rank = task.rank;
  place.world_size = task.tasks;
  place.rank_from = "SLURM_PROCID";
  place.world_size_from =
      concat(task.tasks_from,
             " (or set RANK=0 and WORLD_SIZE=1 to run this process alone)");
  if (place.world_size > 1) read_slurm_address(place, task);
  return place;
}

// Slurm's variables apply only if neither RANK and WORLD_SIZE nor the options
// set the rank or the world size.
std::optional<comm::SlurmTask> slurm_task_for(
    const ProcessGroupOptions& options) {
  if (std::getenv("RANK") || std::getenv("WORLD_SIZE") || options.rank >= 0 ||
      options.world_size >= 0)
    return std::nullopt;
  return comm::slurm_task();
}

// The ranks of an MPI launcher, where MPI itself is not used because its
// messages cannot be encrypted.
MeetingPlace from_mpi_launcher(const comm::MpiTask& task) {
  MeetingPlace place;
  place.rank = task.rank;
  place.world_size = task.tasks;
  place.rank_from = task.rank_from;
  place.world_size_from = task.tasks_from;
  if (place.world_size > 1) read_address(place);
  return place;
}

MeetingPlace from_variables(const ProcessGroupOptions& options) {
  if (const auto task = slurm_task_for(options)) return from_slurm(*task);
  if (const auto task = comm::mpi_task(); task && comm::wants_encryption())
    return from_mpi_launcher(*task);
  MeetingPlace place;
  const auto hint = [](const char* name, const char* what) {
    return concat("env:// needs the variable ", name,
                  ", which is not set; set it to ", what,
                  ", or start the program with torchrun, srun or mpirun");
  };
  read_ranks(
      place, agree(from_environment("RANK"), options.rank, "rank"),
      agree(from_environment("WORLD_SIZE"), options.world_size, "world_size"),
      hint("RANK", "this process's rank"),
      hint("WORLD_SIZE", "the number of ranks"));
  if (place.world_size == 1) return place;  // no rendezvous needed
  read_address(place);
  read_agent(place);
  return place;
}

MeetingPlace from_tcp(const Url& url, const ProcessGroupOptions& options) {
  MeetingPlace place;
  const std::size_t colon = url.rest.rfind(':');
  const bool has_port = colon != std::string::npos &&
                        url.rest.find(']', colon) == std::string::npos;
  SHEAF_CHECK(has_port && colon + 1 < url.rest.size(),
              "the port is missing in ", url.text,
              "; write tcp://host:port, such as tcp://",
              url.rest.empty() ? "host" : url.rest.substr(0, colon), ":29500");
  place.host = url.rest.substr(0, colon);
  if (place.host.size() > 2 && place.host.front() == '[')
    place.host = place.host.substr(1, place.host.size() - 2);
  SHEAF_CHECK(!place.host.empty(), "the host is missing in ", url.text,
              "; write tcp://host:port with the host of rank 0");
  place.host_from = concat("host of ", url.text);
  place.port_from = concat("port of ", url.text);
  place.port = parse_port(url.rest.substr(colon + 1), place.port_from);
  read_ranks_of_url(place, url, options);
  return place;
}

MeetingPlace from_file(const Url& url, const ProcessGroupOptions& options) {
  MeetingPlace place;
  SHEAF_CHECK(!url.rest.empty() && url.rest.front() == '/', "the path in ",
              url.text, " must be absolute: file:///path, three slashes");
  SHEAF_CHECK(url.rest.back() != '/', "the path in ", url.text,
              " is a folder; name a file in it that does not exist yet");
  place.path = url.rest;
  read_ranks_of_url(place, url, options);
  return place;
}

}  // namespace

namespace {

// Set by the user, or by torchrun.
std::string name_of_job() {
  for (const char* name : {"SHEAF_JOB", "TORCHELASTIC_RUN_ID"})
    if (const char* text = std::getenv(name)) return text;
  return "";
}

}  // namespace

std::string text_of(const MeetingPlace& place) {
  if (!place.path.empty()) return place.path;
  const bool is_v6 = place.host.find(':') != std::string::npos;
  return is_v6 ? concat("[", place.host, "]:", place.port)
               : concat(place.host, ":", place.port);
}

MeetingPlace find_meeting_place(const ProcessGroupOptions& options) {
  const Url url =
      parse_url(options.init_method.empty() ? "env://" : options.init_method);
  MeetingPlace place;
  if (url.scheme == "env") {
    SHEAF_CHECK(url.rest.empty() && url.query.empty(), "init_method ", url.text,
                ": env:// takes no path or query; set environment variables");
    place = from_variables(options);
  } else if (url.scheme == "tcp") {
    place = from_tcp(url, options);
  } else if (url.scheme == "file") {
    place = from_file(url, options);
  } else {
    constexpr std::array<std::string_view, 3> kSchemes{"env", "tcp", "file"};
    throw UsageError(concat("init_method ", url.text, ": unknown scheme '",
                            url.scheme, "'; allowed: env://, tcp://, file://",
                            did_you_mean(url.scheme, kSchemes)));
  }
  place.prefix += options.group_name;
  place.job = name_of_job();
  place.timeout = options.timeout;
  return place;
}

}  // namespace sheaf::tensor

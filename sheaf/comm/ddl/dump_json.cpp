#include "sheaf/comm/ddl/dump_json.hpp"

#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"

namespace sheaf::comm {
namespace {

using Json = nlohmann::json;

// JSON has no infinities and NaN; they are written as strings.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

double number_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  return std::strtod(json.get_ref<const std::string&>().c_str(), nullptr);
}

Json json_of(const Finding& found) {
  return {{"element", found.element},
          {"fault", static_cast<int>(found.fault)},
          {"result", number(found.result)},
          {"reference", number(found.reference)},
          {"error", number(found.error)},
          {"bound", number(found.bound)}};
}

Finding finding_of(const Json& json) {
  return {.element = json.at("element"),
          .fault = static_cast<Fault>(json.at("fault").get<int>()),
          .result = number_of(json.at("result")),
          .reference = number_of(json.at("reference")),
          .error = number_of(json.at("error")),
          .bound = number_of(json.at("bound"))};
}

Json json_of(const Fingerprint& call) {
  return {{"operation", name_of(call.operation)},
          {"dtype", name_of(call.dtype)},
          {"op", name_of(call.op)},
          {"flags", call.flags},
          {"count", call.count},
          {"name_hash", call.name_hash},
          {"sequence", call.sequence},
          {"text", describe(call)}};
}

Operation operation_of(const std::string& name) {
  for (const auto known : {Operation::kAllReduce, Operation::kAllReduceN})
    if (name == name_of(known)) return known;
  throw UsageError(concat("unknown operation '", name, "'"));
}

Fingerprint fingerprint_of(const Json& json) {
  return {.operation = operation_of(json.at("operation")),
          .dtype = parse_dtype(json.at("dtype").get<std::string>()),
          .op = parse_reduce_op(json.at("op").get<std::string>()),
          .flags = json.at("flags"),
          .count = json.at("count"),
          .name_hash = json.at("name_hash"),
          .sequence = json.at("sequence")};
}

Json json_of(const Verdict& verdict) {
  return {{"checked", verdict.checked},
          {"wrong", verdict.wrong},
          {"nan_inputs", verdict.nan_inputs},
          {"first_nan_input", verdict.first_nan_input},
          {"worst", json_of(verdict.worst)}};
}

Verdict verdict_of(const Json& json) {
  return {.checked = json.at("checked"),
          .wrong = json.at("wrong"),
          .nan_inputs = json.at("nan_inputs"),
          .first_nan_input = json.at("first_nan_input"),
          .worst = finding_of(json.at("worst"))};
}

Json topology_of(const Dump& dump) {
  Json hosts = Json::array();
  for (const DumpHost& host : dump.hosts)
    hosts.push_back({{"name", host.name}, {"ranks", host.ranks}});
  return {{"hosts", hosts},
          {"options", dump.options},
          {"transport", dump.transport}};
}

}  // namespace

Json dump_header(const Dump& dump) {
  return {
      {"rank", dump.rank},
      {"world_rank", dump.world_rank},
      {"group", dump.group},
      {"iteration", dump.iteration},
      {"fingerprint", json_of(dump.call)},
      {"counts", dump.counts},
      {"check", dump.check},
      {"topology", topology_of(dump)},
      {"verdict", json_of(dump.verdict)},
      {"worst_rank", dump.worst_rank},
      {"worst", json_of(dump.worst)},
      {"window", {{"first", dump.window_first}, {"count", dump.window_count}}}};
}

Dump dump_of(const Json& header) {
  Dump dump;
  dump.rank = header.at("rank");
  dump.world_rank = header.at("world_rank");
  dump.group = header.at("group");
  dump.iteration = header.at("iteration");
  dump.call = fingerprint_of(header.at("fingerprint"));
  dump.counts = header.at("counts").get<std::vector<std::uint64_t>>();
  dump.check = header.at("check");
  const Json& topology = header.at("topology");
  for (const Json& host : topology.at("hosts"))
    dump.hosts.push_back({host.at("name"), host.at("ranks")});
  dump.options = topology.at("options");
  dump.transport = topology.at("transport");
  dump.verdict = verdict_of(header.at("verdict"));
  dump.worst_rank = header.at("worst_rank");
  dump.worst = finding_of(header.at("worst"));
  dump.window_first = header.at("window").at("first");
  dump.window_count = header.at("window").at("count");
  return dump;
}

}  // namespace sheaf::comm

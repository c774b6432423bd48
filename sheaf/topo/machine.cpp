#include "sheaf/topo/machine.hpp"

#include <concepts>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/json_file.hpp"

namespace sheaf::topo {
namespace {

using Json = nlohmann::ordered_json;

using Value = JsonValue;

double positive(const Value& value) {
  const double number = value.number();
  if (!(number > 0)) value.fail(concat("must be > 0, not ", number));
  return number;
}

double not_negative(const Value& value) {
  const double number = value.number();
  if (!(number >= 0)) value.fail(concat("must be >= 0, not ", number));
  return number;
}

// Sets `number` to the member `key`, if there is one, as `parse` reads it.
template <class Parse>
void read(const Value& from, const char* key, double& number, Parse parse) {
  if (const auto value = from.find(key)) number = parse(*value);
}

void read(const Value& from, const char* key, std::string& text) {
  text = from.value(key, text);
}

template <std::integral T>
void read_whole(const Value& from, const char* key, T& number, T least) {
  if (const auto value = from.find(key)) number = value->whole<T>(least);
}

void read(const Value& from, const char* key, Link& link) {
  const auto value = from.find(key);
  if (!value) return;
  value->allow_only({"latency_us", "bandwidth_gbs"});
  read(*value, "latency_us", link.latency_us, not_negative);
  read(*value, "bandwidth_gbs", link.bandwidth_gbs, positive);
}

// A list in which `parse` reads each object.
template <class Item>
void read(const Value& from, const char* key, std::vector<Item>& items,
          Item (*parse)(const Value&)) {
  if (const auto list = from.find(key))
    for (const Value& item : list->items()) items.push_back(parse(item));
}

MachineHost host_of(const Value& from) {
  MachineHost host;
  from.allow_only({"name", "sockets", "cores", "memory_bytes"});
  read(from, "name", host.name);
  read_whole(from, "sockets", host.sockets, 1);
  read_whole(from, "cores", host.cores, 1);
  read_whole<std::int64_t>(from, "memory_bytes", host.memory_bytes, 0);
  return host;
}

MachineCast cast_of(const Value& from) {
  MachineCast cast;
  from.allow_only({"from", "to", "ns_per_element", "ns"});
  read(from, "from", cast.from);
  read(from, "to", cast.to);
  read(from, "ns_per_element", cast.ns_per_element, positive);
  read(from, "ns", cast.ns, not_negative);
  return cast;
}

MachineDevice device_of(const Value& from) {
  MachineDevice device;
  from.allow_only({"name", "kind", "host", "memory_bytes", "casts"});
  read(from, "name", device.name);
  read(from, "kind", device.kind);
  read(from, "host", device.host);
  read_whole<std::int64_t>(from, "memory_bytes", device.memory_bytes, 0);
  read(from, "casts", device.casts, cast_of);
  return device;
}

void read(const Value& from, const char* key, Contention& contention) {
  const auto value = from.find(key);
  if (!value) return;
  value->allow_only({"ranks", "bytes", "slowdown"});
  read_whole(*value, "ranks", contention.ranks, 1);
  read_whole<std::int64_t>(*value, "bytes", contention.bytes, 0);
  read(*value, "slowdown", contention.slowdown, positive);
}

Machine machine_of(const Value& root) {
  Machine machine;
  root.allow_only({"name", "hosts", "devices", "links", "shm_memory_gbs",
                   "reduce_gbs", "message_us", "contention"});
  read(root, "name", machine.name);
  read(root, "hosts", machine.hosts, host_of);
  read(root, "devices", machine.devices, device_of);
  if (const auto links = root.find("links")) {
    links->allow_only({"shm", "network"});
    read(*links, "shm", machine.shm);
    read(*links, "network", machine.network);
  }
  read(root, "shm_memory_gbs", machine.shm_memory_gbs, positive);
  read(root, "reduce_gbs", machine.reduce_gbs, positive);
  read(root, "message_us", machine.message_us, not_negative);
  read(root, "contention", machine.contention);
  return machine;
}

Json json_of(const Contention& one) {
  return {
      {"ranks", one.ranks}, {"bytes", one.bytes}, {"slowdown", one.slowdown}};
}

Json json_of(const Link& link) {
  return {{"latency_us", link.latency_us},
          {"bandwidth_gbs", link.bandwidth_gbs}};
}

Json json_of(const MachineHost& host) {
  return {{"name", host.name},
          {"sockets", host.sockets},
          {"cores", host.cores},
          {"memory_bytes", host.memory_bytes}};
}

Json json_of(const MachineCast& cast) {
  return {{"from", cast.from},
          {"to", cast.to},
          {"ns_per_element", cast.ns_per_element},
          {"ns", cast.ns}};
}

Json json_of(const MachineDevice& device);

template <class Item>
Json list_of(const std::vector<Item>& items) {
  Json list = Json::array();
  for (const Item& item : items) list.push_back(json_of(item));
  return list;
}

Json json_of(const MachineDevice& device) {
  Json json{{"name", device.name},
            {"kind", device.kind},
            {"host", device.host},
            {"memory_bytes", device.memory_bytes}};
  if (!device.casts.empty()) json["casts"] = list_of(device.casts);
  return json;
}

}  // namespace

double message_time_us(const Link& link, double bytes) noexcept {
  return link.latency_us + bytes / (1e3 * link.bandwidth_gbs);
}

Machine parse_machine(std::string_view json, const std::string& path) {
  const JsonSource source{path, "", /*is_by_user=*/true};
  const nlohmann::json root = parse_json(json, source);
  return machine_of(JsonValue(root, source));
}

Machine load_machine(const std::string& path) {
  return parse_machine(read_file(path, kMostTextBytes), path);
}

std::string text_of(const Machine& machine) {
  const Json root{
      {"name", machine.name},
      {"hosts", list_of(machine.hosts)},
      {"devices", list_of(machine.devices)},
      {"links",
       {{"shm", json_of(machine.shm)}, {"network", json_of(machine.network)}}},
      {"shm_memory_gbs", machine.shm_memory_gbs},
      {"reduce_gbs", machine.reduce_gbs},
      {"message_us", machine.message_us},
      {"contention", json_of(machine.contention)}};
  // A name that is not UTF-8 must not cause the measurement to be lost.
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void save_machine(const Machine& machine, const std::string& path) {
  const std::string text = text_of(machine);
  parse_machine(text, path);  // throws instead of writing an invalid file
  write_file_atomically(path, text);
}

}  // namespace sheaf::topo

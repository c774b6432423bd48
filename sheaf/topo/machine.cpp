#include "sheaf/topo/machine.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/text.hpp"

namespace sheaf::topo {
namespace {

using Json = nlohmann::ordered_json;

// A JSON object and its path in the file, so that every error names the key.
class Reader {
 public:
  Reader(const Json& object, std::string file, std::string path)
      : object_(object), file_(std::move(file)), path_(std::move(path)) {
    check(object.is_object(), path_, "must be an object");
  }

  void allow_only(const std::vector<std::string_view>& keys) const {
    for (const auto& [key, value] : object_.items()) {
      bool is_known = false;
      for (const std::string_view known : keys) is_known |= known == key;
      check(is_known, name_of_key(key),
            concat("is unknown; use one of ", join(keys, ", ")));
    }
  }

  void read(const char* key, std::string& value) const {
    if (!object_.contains(key)) return;
    check(object_[key].is_string(), name_of_key(key), "must be a string");
    value = object_[key].get<std::string>();
  }

  void read(const char* key, double& value, bool may_be_zero) const {
    if (!object_.contains(key)) return;
    const Json& item = object_[key];
    const std::string limit = may_be_zero ? ">= 0" : "> 0";
    check(item.is_number(), name_of_key(key),
          concat("must be a number ", limit, ", not ", item.dump()));
    const double number = item.get<double>();
    check(std::isfinite(number) && (number > 0 || (may_be_zero && number == 0)),
          name_of_key(key), concat("must be ", limit, ", not ", item.dump()));
    value = number;
  }

  template <class Integer>
  void read_whole(const char* key, Integer& value, Integer smallest) const {
    if (!object_.contains(key)) return;
    const Json& item = object_[key];
    check(
        item.is_number_integer() && item.get<std::int64_t>() >= smallest &&
            item.get<std::int64_t>() <= std::numeric_limits<Integer>::max(),
        name_of_key(key),
        concat("must be a whole number >= ", smallest, ", not ", item.dump()));
    value = item.get<Integer>();
  }

  void read(const char* key, Link& link) const {
    if (!object_.contains(key)) return;
    const Reader inner(object_[key], file_, name_of_key(key));
    inner.allow_only({"latency_us", "bandwidth_gbs"});
    inner.read("latency_us", link.latency_us, /*may_be_zero=*/true);
    inner.read("bandwidth_gbs", link.bandwidth_gbs, /*may_be_zero=*/false);
  }

  // Calls `each(reader)` for the objects of a list.
  template <class Function>
  void for_each(const char* key, Function each) const {
    if (!object_.contains(key)) return;
    const Json& list = object_[key];
    check(list.is_array(), name_of_key(key), "must be a list");
    for (std::size_t i = 0; i < list.size(); ++i)
      each(Reader(list[i], file_, concat(name_of_key(key), "[", i, "]")));
  }

  Reader object(const char* key) const {
    static const Json empty = Json::object();
    return Reader(object_.contains(key) ? object_[key] : empty, file_,
                  name_of_key(key));
  }

 private:
  std::string name_of_key(std::string_view key) const {
    return path_.empty() ? std::string(key) : concat(path_, ".", key);
  }
  void check(bool holds, std::string_view key, std::string_view what) const {
    SHEAF_CHECK(holds, file_, ": ",
                key.empty() ? "the content" : concat("key '", key, "'"), " ",
                what);
  }

  const Json& object_;
  std::string file_;
  std::string path_;
};

MachineHost read_host(const Reader& reader) {
  MachineHost host;
  reader.allow_only({"name", "sockets", "cores", "memory_bytes"});
  reader.read("name", host.name);
  reader.read_whole("sockets", host.sockets, 1);
  reader.read_whole("cores", host.cores, 1);
  reader.read_whole<std::int64_t>("memory_bytes", host.memory_bytes, 0);
  return host;
}

MachineCast read_cast(const Reader& reader) {
  MachineCast cast;
  reader.allow_only({"from", "to", "ns_per_element", "ns"});
  reader.read("from", cast.from);
  reader.read("to", cast.to);
  reader.read("ns_per_element", cast.ns_per_element, /*may_be_zero=*/false);
  reader.read("ns", cast.ns, /*may_be_zero=*/true);
  return cast;
}

MachineDevice read_device(const Reader& reader) {
  MachineDevice device;
  reader.allow_only({"name", "kind", "host", "memory_bytes", "casts"});
  reader.read("name", device.name);
  reader.read("kind", device.kind);
  reader.read("host", device.host);
  reader.read_whole<std::int64_t>("memory_bytes", device.memory_bytes, 0);
  reader.for_each("casts", [&](const Reader& cast) {
    device.casts.push_back(read_cast(cast));
  });
  return device;
}

Contention read_contention(const Reader& reader) {
  Contention found;
  reader.allow_only({"ranks", "bytes", "slowdown"});
  reader.read_whole("ranks", found.ranks, 1);
  reader.read_whole<std::int64_t>("bytes", found.bytes, 0);
  reader.read("slowdown", found.slowdown, /*may_be_zero=*/false);
  return found;
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
  Json root;
  try {
    root = Json::parse(json);
  } catch (const Json::exception& error) {
    throw UsageError(concat(path, ": not JSON: ", error.what()));
  }
  Machine machine;
  const Reader reader(root, path, "");
  reader.allow_only({"name", "hosts", "devices", "links", "shm_memory_gbs",
                     "reduce_gbs", "message_us", "contention"});
  reader.read("name", machine.name);
  reader.for_each("hosts", [&](const Reader& host) {
    machine.hosts.push_back(read_host(host));
  });
  reader.for_each("devices", [&](const Reader& device) {
    machine.devices.push_back(read_device(device));
  });
  const Reader links = reader.object("links");
  links.allow_only({"shm", "network"});
  links.read("shm", machine.shm);
  links.read("network", machine.network);
  reader.read("shm_memory_gbs", machine.shm_memory_gbs, /*may_be_zero=*/false);
  reader.read("reduce_gbs", machine.reduce_gbs, /*may_be_zero=*/false);
  reader.read("message_us", machine.message_us, /*may_be_zero=*/true);
  machine.contention = read_contention(reader.object("contention"));
  return machine;
}

Machine load_machine(const std::string& path) {
  return parse_machine(read_file(path), path);
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

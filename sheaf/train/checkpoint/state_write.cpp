#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "sheaf/base/error.hpp"
#include "sheaf/train/checkpoint/state_fields.hpp"
#include "sheaf/train/files/durable.hpp"

namespace sheaf::train {
namespace {

using nlohmann::ordered_json;

// A name that is not valid UTF-8, which JSON cannot hold, becomes a list of
// bytes: folder names may contain any bytes.
ordered_json json_of_name(const std::string& name) {
  try {
    const ordered_json json = name;
    (void)json.dump();
    return json;
  } catch (const ordered_json::type_error&) {
    return std::vector<std::uint8_t>(name.begin(), name.end());
  }
}

ordered_json json_of_names(const std::vector<std::string>& names) {
  ordered_json json = ordered_json::array();
  for (const std::string& name : names) json.push_back(json_of_name(name));
  return json;
}

class FieldWriter {
 public:
  template <class T>
  void add(const char* name, T& value) {
    json_[name] = json_for(value);
  }
  template <class T>
  void add_new(const char* name, T& value) {
    add(name, value);
  }
  const ordered_json& json() const { return json_; }

 private:
  static ordered_json json_for(std::int64_t value) { return value; }
  static ordered_json json_for(bool value) { return value; }
  // JSON has no non-finite numbers.
  static ordered_json json_for(double value) {
    return std::isfinite(value) ? ordered_json(value) : ordered_json();
  }
  static ordered_json json_for(std::string& name) { return json_of_name(name); }
  static ordered_json json_for(std::vector<std::string>& names) {
    return json_of_names(names);
  }
  template <class Struct>
  static ordered_json json_for(Struct& value) {
    FieldWriter inner;
    walk_state(inner, value);
    return inner.json_;
  }

  ordered_json json_ = ordered_json::object();
};

}  // namespace

CheckpointFile describe(std::string name, std::string_view bytes) {
  return {std::move(name), bytes.size(), crc32c(bytes)};
}

std::string shard_name(std::string_view kind, int shard, int shards) {
  if (shards == 1) return fmt::format("{}.pt", kind);
  return fmt::format("{}-{:05}-of-{:05}.pt", kind, shard, shards);
}

std::string state_text(const RunState& state,
                       const std::vector<CheckpointFile>& files) {
  const std::size_t shards = files.size() / 2;
  SHEAF_CHECK(shards <= kMostShards, "a checkpoint has at most ", kMostShards,
              " shards, not ", shards, "; set output.shards=one");
  ordered_json json{{"format", shards == 1 ? kFormat : kShardedFormat}};
  FieldWriter writer;
  RunState copy = state;
  walk_state(writer, copy);
  json.update(writer.json());
  if (shards > 1) json["shards"] = shards;
  for (const CheckpointFile& file : files)
    json[file.name] = {{"bytes", file.bytes}, {kChecksum, file.checksum}};
  json[kChecksum] = crc32c(json.dump());
  std::string text = json.dump(2) + "\n";
  SHEAF_CHECK(text.size() <= kMostStateBytes, "the class names take ",
              text.size(),
              " bytes in state.json of a checkpoint, which has at "
              "most ",
              kMostStateBytes, "; shorten them");
  return text;
}

}  // namespace sheaf::train

#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "sheaf/base/error.hpp"
#include "sheaf/train/checkpoint/state_fields.hpp"
#include "sheaf/train/files/durable.hpp"

namespace sheaf::train {
namespace {

using Json = nlohmann::json;

// Limits of what the reader accepts, so that a small file cannot take much
// memory: a key takes 20 times its space in the file.
constexpr int kMostDepth = 8;
constexpr int kMostStateKeys = 6 * kMostShards + 1000;

// What is wrong with a value; caught by parse_state().
class BadValue : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

const Json& value_of(const Json& json, const char* name) {
  const auto found = json.is_object() ? json.find(name) : json.end();
  if (found == json.end()) throw BadValue("is missing");
  return *found;
}

// Conversions that accept nothing but the type and the range of the value.
std::uint64_t count_in(const Json& json) {
  if (!json.is_number_unsigned()) throw BadValue("is not a count");
  return json.get<std::uint64_t>();
}

std::int64_t integer_in(const Json& json) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() && json.get<std::uint64_t>() > kMost))
    throw BadValue("is not an integer of 64 bits");
  return json.get<std::int64_t>();
}

std::string name_in(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_array()) throw BadValue("is neither text nor bytes");
  std::string name;
  for (const Json& byte : json) {
    if (!byte.is_number_unsigned() || byte.get<std::uint64_t>() > 255)
      throw BadValue("is neither text nor bytes");
    name += static_cast<char>(byte.get<std::uint8_t>());
  }
  return name;
}

std::vector<std::string> names_in(const Json& json) {
  if (!json.is_array()) throw BadValue("is not a list");
  std::vector<std::string> names;
  for (const Json& name : json) names.push_back(name_in(name));
  return names;
}

class FieldReader {
 public:
  explicit FieldReader(const Json& json) : json_(json) {}

  template <class T>
  void add(const char* name, T& value) {
    try {
      read(value_of(json_, name), value);
    } catch (const BadValue& error) {
      throw BadValue(concat("'", name, "' ", error.what()));
    }
  }
  // Absent in checkpoints of earlier versions.
  template <class T>
  void add_new(const char* name, T& value) {
    if (json_.contains(name)) add(name, value);
  }

 private:
  static void read(const Json& json, std::int64_t& value) {
    value = integer_in(json);
  }
  static void read(const Json& json, bool& value) {
    if (!json.is_boolean()) throw BadValue("is not true or false");
    value = json.get<bool>();
  }
  static void read(const Json& json, double& value) {
    if (!json.is_number() && !json.is_null()) throw BadValue("is not a number");
    value = json.is_null() ? std::numeric_limits<double>::quiet_NaN()
                           : json.get<double>();
  }
  static void read(const Json& json, std::string& name) {
    name = name_in(json);
  }
  static void read(const Json& json, std::vector<std::string>& names) {
    names = names_in(json);
  }
  template <class Struct>
  static void read(const Json& json, Struct& value) {
    FieldReader inner(json);
    walk_state(inner, value);
  }

  const Json& json_;
};

// Counts are used as positions and as operands of sums.
void check_counts(const RunState& state) {
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  struct Count {
    const char* name;
    std::int64_t value;
    std::int64_t least = 0;
  };
  const Count counts[] = {{"step", state.step},
                          {"epoch", state.epoch},
                          {"batch", state.batch},
                          {"pretrained_stages", state.pretrained_stages},
                          {"global_batch", state.global_batch},
                          {"examples", state.examples},
                          {"best_step", state.best_step, -1},
                          {"epochs_since_best", state.epochs_since_best},
                          {"epochs", state.totals.epochs},
                          {"skipped_steps", state.totals.skipped_steps},
                          {"open_skipped", state.totals.open_skipped}};
  for (const Count& one : counts)
    if (one.value < one.least || one.value > kMost)
      throw BadValue(
          concat("'", one.name, "' is ", one.value, ", which is out of range"));
}

// Fails before the document takes much memory.
class Limits {
 public:
  bool operator()(int depth, Json::parse_event_t event, Json& /*parsed*/) {
    if (depth > kMostDepth) throw BadValue("it is nested too deeply");
    if (event == Json::parse_event_t::key && ++keys_ > kMostStateKeys)
      throw BadValue("it has too many keys");
    return true;
  }

 private:
  int keys_ = 0;
};

// Without white space, as dump() returns it.
std::string compact(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  bool is_quoted = false, is_escaped = false;
  for (const char byte : text) {
    if (!is_quoted && (byte == ' ' || byte == '\n')) continue;
    if (byte == '"' && !is_escaped) is_quoted = !is_quoted;
    is_escaped = is_quoted && byte == '\\' && !is_escaped;
    result += byte;
  }
  return result;
}

// The checksum is the last value. It covers the compact text without itself.
// Nothing that it does not cover is parsed.
void check_checksum(std::string_view text) {
  const std::string whole = compact(text);
  const std::string key = concat(",\"", kChecksum, "\":");
  const std::size_t place = whole.rfind(key);
  if (place == whole.npos || !whole.ends_with('}'))
    throw BadValue("it is truncated or not a checkpoint state");
  const std::uint32_t checksum = crc32c(whole.substr(0, place) + "}");
  if (whole.substr(place + key.size()) != concat(checksum, "}"))
    throw BadValue("its checksum is wrong");
}

Json checked_json(std::string_view text) {
  if (text.size() > kMostStateBytes) throw BadValue("it is too large");
  check_checksum(text);
  const Json parsed = Json::parse(text, Limits(), /*allow_exceptions=*/false);
  if (!parsed.is_object()) throw BadValue("it is not a checkpoint state");
  const std::uint64_t format = count_in(value_of(parsed, "format"));
  if (format != kFormat && format != kShardedFormat)
    throw BadValue(concat("its format is ", format, "; this version reads ",
                          kFormat, " and ", kShardedFormat));
  return parsed;
}

CheckpointFile file_in(const Json& json, std::string name) {
  const Json& file = value_of(json, name.c_str());
  const std::uint64_t checksum = count_in(value_of(file, kChecksum));
  if (checksum > 0xffffffff) throw BadValue("has no checksum of 32 bits");
  return {std::move(name), count_in(value_of(file, "bytes")),
          static_cast<std::uint32_t>(checksum)};
}

std::vector<CheckpointFile> files_in(const Json& json) {
  const std::uint64_t shards =
      json.contains("shards") ? count_in(json["shards"]) : 1;
  if (shards < 1 || shards > kMostShards)
    throw BadValue(
        concat("it has ", shards, " shards, not 1 to ", kMostShards));
  std::vector<CheckpointFile> files;
  for (const char* kind : {"weights", "optimizer"})
    for (int i = 0; i < static_cast<int>(shards); ++i) {
      const std::string name = shard_name(kind, i, static_cast<int>(shards));
      try {
        files.push_back(file_in(json, name));
      } catch (const BadValue& error) {
        throw BadValue(concat("its entry of ", name, " ", error.what()));
      }
    }
  return files;
}

KnownState state_in(std::string_view text) {
  const Json json = checked_json(text);
  KnownState result;
  FieldReader reader(json);
  walk_state(reader, result.numbers);
  check_counts(result.numbers);
  result.files = files_in(json);
  return result;
}

}  // namespace

KnownState parse_state(std::string_view text, const std::string& name) try {
  return state_in(text);
} catch (const BadValue& error) {
  fail_as_invalid(name, concat("state.json: ", error.what()));
} catch (const Json::exception& error) {
  fail_as_invalid(name, concat("state.json: ", error.what()));
} catch (const std::bad_alloc&) {
  fail_as_invalid(name, "state.json does not fit in memory");
}

void check_file(const CheckpointFile& file, const CheckpointFile& found,
                const std::string& name) {
  if (found.bytes != file.bytes)
    fail_as_invalid(name, concat(file.name, " has ", found.bytes,
                                 " bytes, not ", file.bytes));
  if (found.checksum != file.checksum)
    fail_as_invalid(name, concat("the checksum of ", file.name, " is wrong"));
}

void fail_as_invalid(const std::string& name, const std::string& why) {
  throw InvalidCheckpoint(concat("the checkpoint ", name, " is invalid: ", why,
                                 "; try an older one"));
}

}  // namespace sheaf::train

#include "sheaf/comm/ddl/dump.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"

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

// The header of a dump as JSON: everything except the elements.
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

// Throws nlohmann::json::exception if a value is missing or has the wrong type,
// and UsageError for an unknown name.
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

constexpr std::string_view kMagic = "SHEAFDMP";
constexpr std::uint32_t kVersion = 1;
// Magic, version, size and checksum of the header.
constexpr std::size_t kPreambleBytes = 8 + 4 + 4 + 4;

// CRC-32 as in zlib and PNG.
std::uint32_t crc32(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      made[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        made[i] = made[i] & 1 ? made[i] >> 1 ^ 0xedb88320u : made[i] >> 1;
    }
    return made;
  }();
  std::uint32_t crc = ~0u;
  for (const char c : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::string_view view_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8)
    out += static_cast<char>(value >> shift & 0xff);
}

nlohmann::json section_of(const char* name,
                          const std::vector<std::byte>& bytes) {
  return {{"name", name},
          {"bytes", bytes.size()},
          {"crc32", crc32(view_of(bytes))}};
}

// Reads the file sequentially and reports errors with their offset.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& path)
      : bytes_(bytes), path_(path) {}

  [[noreturn]] void fail(std::size_t offset, const std::string& what) const {
    throw IoError(concat(path_, ": at offset ", offset, ": ", what));
  }
  std::size_t offset() const { return at_; }
  std::string_view take(std::size_t count, const std::string& what) {
    if (bytes_.size() - at_ < count)
      fail(at_, concat(what, " has ", count, " bytes, but the file ends at ",
                       bytes_.size(), "; it is truncated"));
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  std::uint32_t take_u32(const std::string& what) {
    const std::string_view bytes = take(4, what);
    std::uint32_t value = 0;
    for (std::size_t i = 4; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(bytes[i]);
    return value;
  }
  std::string_view take_checked(std::size_t count, std::uint32_t crc,
                                const std::string& what) {
    const std::size_t begin = at_;
    const std::string_view bytes = take(count, what);
    if (const std::uint32_t found = crc32(bytes); found != crc)
      fail(begin, concat(what, " has checksum ", found, " instead of ", crc,
                         "; it is damaged"));
    return bytes;
  }
  void expect_end() const {
    if (at_ != bytes_.size())
      fail(at_, concat("the dump ends, but the file has ", bytes_.size() - at_,
                       " more bytes"));
  }

 private:
  std::string_view bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

std::string_view take_header(Reader& reader) {
  if (reader.take(kMagic.size(), "the magic number") != kMagic)
    reader.fail(0, concat("not a dump file: it does not begin with ", kMagic));
  const std::uint32_t version = reader.take_u32("the version");
  if (version != kVersion)
    reader.fail(kMagic.size(), concat("this dump has version ", version,
                                      ", this program reads ", kVersion));
  const std::uint32_t bytes = reader.take_u32("the size of the header");
  const std::uint32_t crc = reader.take_u32("the header's checksum");
  return reader.take_checked(bytes, crc, "the header");
}

void take_section(Reader& reader, const nlohmann::json& section,
                  std::vector<std::byte>& to, std::size_t wanted) {
  const std::string name = "section '" + section.at("name").get<std::string>();
  const std::size_t begin = reader.offset();
  const std::string_view bytes =
      reader.take_checked(section.at("bytes"), section.at("crc32"), name + "'");
  if (bytes.size() != wanted)
    reader.fail(begin, concat(name, "' has ", bytes.size(),
                              " bytes, the call has ", wanted));
  to.resize(bytes.size());
  if (!bytes.empty()) std::memcpy(to.data(), bytes.data(), bytes.size());
}

Dump take_dump(Reader& reader) {
  const auto header = nlohmann::json::parse(take_header(reader));
  Dump dump = dump_of(header);
  const std::size_t element = size_of(dump.call.dtype);
  const std::size_t bytes = dump.call.count * element;
  const auto& sections = header.at("sections");
  take_section(reader, sections.at(0), dump.input, bytes);
  take_section(reader, sections.at(1), dump.output, bytes);
  take_section(
      reader, sections.at(2), dump.window,
      dump.window_count * element * static_cast<std::size_t>(dump.size()));
  reader.expect_end();
  return dump;
}

}  // namespace

int Dump::size() const {
  std::size_t ranks = 0;
  for (const DumpHost& host : hosts) ranks += host.ranks.size();
  return static_cast<int>(ranks);
}

std::filesystem::path dump_path(int world_rank, std::uint64_t iteration,
                                int group) {
  const char* folder = std::getenv("SHEAF_DUMP_DIR");
  std::string name = concat("sheaf.dump.", world_rank, ".", iteration);
  if (group != 0) name += concat(".group", group);
  return std::filesystem::path(folder ? folder : ".") / name;
}

std::string format_dump(const Dump& dump) {
  auto header = dump_header(dump);
  header["sections"] = {section_of("input", dump.input),
                        section_of("output", dump.output),
                        section_of("window", dump.window)};
  const std::string text =
      header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string bytes(kMagic);
  append_u32(bytes, kVersion);
  append_u32(bytes, static_cast<std::uint32_t>(text.size()));
  append_u32(bytes, crc32(text));
  bytes.reserve(kPreambleBytes + text.size() + dump.input.size() +
                dump.output.size() + dump.window.size());
  bytes += text;
  bytes += view_of(dump.input);
  bytes += view_of(dump.output);
  bytes += view_of(dump.window);
  return bytes;
}

Dump parse_dump(const std::string& bytes, const std::string& path) {
  Reader reader(bytes, path);
  try {
    return take_dump(reader);
  } catch (const IoError&) {
    throw;
  } catch (const std::exception& error) {  // a header with unexpected content
    reader.fail(kPreambleBytes, concat("the header: ", error.what()));
  }
}

void write_dump(const Dump& dump, const std::filesystem::path& path) {
  write_file_atomically(path, format_dump(dump));
}

Dump read_dump(const std::filesystem::path& path) {
  return parse_dump(read_file(path), path.string());
}

}  // namespace sheaf::comm

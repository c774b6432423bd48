#include "sheaf/comm/ddl/dump.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
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

Json json_of(const Finding& found) {
  return {{"element", found.element},
          {"fault", static_cast<int>(found.fault)},
          {"result", number(found.result)},
          {"reference", number(found.reference)},
          {"error", number(found.error)},
          {"bound", number(found.bound)}};
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

Json json_of(const Verdict& verdict) {
  return {{"checked", verdict.checked},
          {"wrong", verdict.wrong},
          {"nan_inputs", verdict.nan_inputs},
          {"first_nan_input", verdict.first_nan_input},
          {"worst", json_of(verdict.worst)}};
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

std::uint32_t crc32(std::string_view bytes) noexcept {
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

std::string format_dump(const Dump& dump) {
  auto header = dump_header(dump);
  header["sections"] = {section_of("input", dump.input),
                        section_of("output", dump.output),
                        section_of("window", dump.window)};
  const std::string text =
      header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string bytes(kDumpMagic);
  append_u32(bytes, kDumpVersion);
  append_u32(bytes, static_cast<std::uint32_t>(text.size()));
  append_u32(bytes, crc32(text));
  bytes.reserve(kDumpPreambleBytes + text.size() + dump.input.size() +
                dump.output.size() + dump.window.size());
  bytes += text;
  bytes += view_of(dump.input);
  bytes += view_of(dump.output);
  bytes += view_of(dump.window);
  return bytes;
}

void write_dump(const Dump& dump, const std::filesystem::path& path) {
  write_file_atomically(path, format_dump(dump));
}

}  // namespace sheaf::comm

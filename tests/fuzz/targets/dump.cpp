// Dumps. Random bytes would never have the right checksums, so an input is the
// header, a zero byte and the sections, of which the target makes a file with
// right sizes and checksums; an input that begins like a dump is one.
// parser: sheaf/comm/ddl/dump_read.cpp sheaf/comm/ddl/dump_replay.cpp
// parser: sheaf/comm/ddl/reference.cpp
#include "sheaf/comm/ddl/dump.hpp"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/comm/ddl/dump_replay.hpp"
#include "tests/fuzz/byte_source.hpp"

namespace sheaf {
namespace {

using nlohmann::json;

constexpr int kMostDepth = 100;  // nlohmann prints recursively

// Sets the sizes and checksums of the sections, where the header has them.
std::string with_checksums(const std::string& header, std::string_view data) {
  if (std::count(header.begin(), header.end(), '[') > kMostDepth ||
      std::count(header.begin(), header.end(), '{') > kMostDepth)
    return header;
  json whole = json::parse(header, nullptr, /*allow_exceptions=*/false);
  if (!whole.is_object() || !whole.contains("sections") ||
      !whole["sections"].is_array())
    return header;
  for (json& section : whole["sections"]) {
    if (!section.is_object() || !section.contains("bytes")) continue;
    const json& wanted = section["bytes"];
    if (!wanted.is_number_unsigned()) continue;
    const auto bytes = std::min(wanted.get<std::size_t>(), data.size());
    section["bytes"] = bytes;
    section["crc32"] = comm::crc32(data.substr(0, bytes));
    data.remove_prefix(bytes);
  }
  return whole.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string file_of(std::string_view input) {
  if (input.starts_with(comm::kDumpMagic)) return std::string(input);
  const std::size_t end = std::min(input.find('\0'), input.size());
  const std::string_view data = input.substr(std::min(end + 1, input.size()));
  const std::string header =
      with_checksums(std::string(input.substr(0, end)), data);
  std::string file(comm::kDumpMagic);
  for (const std::uint32_t value :
       {comm::kDumpVersion, static_cast<std::uint32_t>(header.size()),
        comm::crc32(header)})
    file.append(reinterpret_cast<const char*>(&value), sizeof value);
  return file.append(header).append(data);
}

}  // namespace

SHEAF_FUZZ_TARGET(dump) {
  const std::string_view bytes = fuzz::text_of(input);
  try {
    const comm::Dump dump = comm::parse_dump(file_of(bytes), "a.dump");
    const comm::Replay replay = comm::replay({&dump, 1});
    comm::statistics_of(dump.call.dtype, dump.input);
    comm::statistics_of(dump.call.dtype, dump.output);
    replay.conclusion(dump);
    describe(dump.call);
    describe(dump.worst);
    comm::parse_dump(comm::format_dump(dump), "again");
  } catch (const Error&) {
  }
}

}  // namespace sheaf

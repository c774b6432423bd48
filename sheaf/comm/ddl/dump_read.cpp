// Reads dumps, of which no byte is trusted: sizes and numbers are compared with
// each other and with the file before they are used.
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/base/files.hpp"
#include "sheaf/base/json_file.hpp"
#include "sheaf/comm/ddl/dump.hpp"

namespace sheaf::comm {
namespace {

// Non-finite numbers are strings.
double number_of(const JsonValue& value) {
  if (!value.is_text()) return value.number();
  const std::string text = value.text();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return infinity;
  if (text == "-inf") return -infinity;
  value.fail("must be a number, nan, inf or -inf");
}

Finding finding_of(const JsonValue& value) {
  const auto fault = value.at("fault").whole<std::uint8_t>(
      0, static_cast<std::uint8_t>(Fault::kInfinity));
  return {.element = value.at("element").as<std::uint64_t>(),
          .fault = static_cast<Fault>(fault),
          .result = number_of(value.at("result")),
          .reference = number_of(value.at("reference")),
          .error = number_of(value.at("error")),
          .bound = number_of(value.at("bound"))};
}

Operation operation_of(const JsonValue& value) {
  const std::string name = value.text();
  for (const auto known : {Operation::kAllReduce, Operation::kAllReduceN})
    if (name == name_of(known)) return known;
  value.fail("must be all_reduce or all_reduce_n");
}

// A name that `parse` reads, whose errors list the names.
template <class Parse>
auto named(const JsonValue& value, Parse parse) {
  try {
    return parse(value.text());
  } catch (const UsageError& error) {
    value.fail(concat("is not valid: ", error.what()));
  }
}

Fingerprint fingerprint_of(const JsonValue& value) {
  Fingerprint call;
  call.operation = operation_of(value.at("operation"));
  call.dtype = named(value.at("dtype"), parse_dtype);
  call.op = named(value.at("op"), parse_reduce_op);
  call.flags = value.at("flags").as<std::uint8_t>();
  call.count = value.at("count").whole<std::uint64_t>(1);
  call.name_hash = value.at("name_hash").as<std::uint32_t>();
  call.sequence = value.at("sequence").as<std::uint32_t>();
  return call;
}

Verdict verdict_of(const JsonValue& value) {
  return {.checked = value.at("checked").as<std::uint64_t>(),
          .wrong = value.at("wrong").as<std::uint64_t>(),
          .nan_inputs = value.at("nan_inputs").as<std::uint64_t>(),
          .first_nan_input = value.at("first_nan_input").as<std::uint64_t>(),
          .worst = finding_of(value.at("worst"))};
}

// Every rank from 0 to the number of ranks - 1 is on one host.
void read_hosts(const JsonValue& value, Dump& dump) {
  for (const JsonValue& host : value.items())
    dump.hosts.push_back(
        {host.at("name").text(), host.at("ranks").as<std::vector<int>>()});
  std::size_t count = 0;
  for (const DumpHost& host : dump.hosts) count += host.ranks.size();
  std::vector<bool> is_there(count);
  for (const DumpHost& host : dump.hosts)
    for (const int rank : host.ranks) {
      const auto place = static_cast<std::size_t>(rank);
      if (place >= count || is_there[place])
        value.fail(concat("must list each of its ", count, " ranks once, from ",
                          "0, but lists ", rank));
      is_there[place] = true;
    }
  if (count == 0) value.fail("must list at least one rank");
}

int rank_of(const JsonValue& value, const Dump& dump) {
  return value.whole(0, dump.size() - 1);
}

void read_counts(const JsonValue& value, Dump& dump) {
  dump.counts = value.as<std::vector<std::uint64_t>>();
  std::uint64_t sum = 0;
  bool fits = true;
  for (const std::uint64_t count : dump.counts)
    fits = fits && !__builtin_add_overflow(sum, count, &sum);
  if (!fits || sum != dump.call.count)
    value.fail(concat("must add up to the ", dump.call.count,
                      " elements of the call"));
}

void read_window(const JsonValue& value, Dump& dump) {
  dump.window_count =
      value.at("count").whole<std::uint64_t>(1, dump.call.count);
  dump.window_first = value.at("first").whole<std::uint64_t>(
      0, dump.call.count - dump.window_count);
}

Dump dump_of(const JsonValue& header) {
  Dump dump;
  dump.call = fingerprint_of(header.at("fingerprint"));
  const JsonValue topology = header.at("topology");
  read_hosts(topology.at("hosts"), dump);
  dump.options = topology.at("options").text();
  dump.transport = topology.at("transport").text();
  dump.rank = rank_of(header.at("rank"), dump);
  dump.world_rank = header.at("world_rank").whole(0);
  dump.group = header.at("group").as<int>();
  dump.iteration = header.at("iteration").as<std::uint64_t>();
  read_counts(header.at("counts"), dump);
  dump.check = header.at("check").number();
  try {
    validate(dump.rule());
  } catch (const UsageError& error) {
    header.at("check").fail(concat("is not valid: ", error.what()));
  }
  dump.verdict = verdict_of(header.at("verdict"));
  dump.worst_rank = rank_of(header.at("worst_rank"), dump);
  dump.worst = finding_of(header.at("worst"));
  read_window(header.at("window"), dump);
  return dump;
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
  // nullopt if no file can have that many bytes.
  using Bytes = std::optional<std::size_t>;
  Bytes product(Bytes bytes, std::size_t factor) const {
    std::size_t result = 0;
    if (!bytes || __builtin_mul_overflow(*bytes, factor, &result))
      return std::nullopt;
    return result;
  }

 private:
  std::string_view bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
};

std::string_view take_header(Reader& reader) {
  if (reader.take(kDumpMagic.size(), "the magic number") != kDumpMagic)
    reader.fail(0,
                concat("not a dump file: it does not begin with ", kDumpMagic));
  const std::uint32_t version = reader.take_u32("the version");
  if (version != kDumpVersion)
    reader.fail(kDumpMagic.size(),
                concat("this dump has version ", version,
                       ", this program reads ", kDumpVersion));
  const std::uint32_t bytes = reader.take_u32("the size of the header");
  const std::uint32_t crc = reader.take_u32("the header's checksum");
  return reader.take_checked(bytes, crc, "the header");
}

void take_section(Reader& reader, const JsonValue& section,
                  std::vector<std::byte>& to, Reader::Bytes wanted) {
  const std::string name = concat("section '", section.at("name").text(), "'");
  const std::size_t begin = reader.offset();
  const std::string_view bytes =
      reader.take_checked(section.at("bytes").as<std::size_t>(),
                          section.at("crc32").as<std::uint32_t>(), name);
  if (bytes.size() != wanted)
    reader.fail(begin, concat(name, " has ", bytes.size(),
                              " bytes, which do not hold the elements of the "
                              "call"));
  to.resize(bytes.size());
  std::memcpy(to.data(), bytes.data(), bytes.size());
}

void take_sections(Reader& reader, const JsonValue& sections, Dump& dump) {
  const auto all = sections.items();
  if (all.size() != 3)
    sections.fail(concat("must list three sections, not ", all.size()));
  const std::size_t element = size_of(dump.call.dtype);
  const auto bytes = reader.product(dump.call.count, element);
  take_section(reader, all[0], dump.input, bytes);
  take_section(reader, all[1], dump.output, bytes);
  take_section(reader, all[2], dump.window,
               reader.product(reader.product(dump.window_count, element),
                              static_cast<std::size_t>(dump.size())));
  reader.expect_end();
}

}  // namespace

Dump parse_dump(const std::string& bytes, const std::string& path) {
  Reader reader(bytes, path);
  const std::string_view text = take_header(reader);
  const JsonSource source{
      concat(path, ": at offset ", kDumpPreambleBytes, ": the header")};
  const nlohmann::json json = parse_json(text, source);
  const JsonValue header(json, source);
  Dump dump = dump_of(header);
  take_sections(reader, header.at("sections"), dump);
  return dump;
}

Dump read_dump(const std::filesystem::path& path) {
  return parse_dump(read_file(path), path.string());
}

}  // namespace sheaf::comm

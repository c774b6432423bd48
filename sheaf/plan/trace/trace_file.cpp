#include "sheaf/plan/trace/trace_file.hpp"

#include <simdjson.h>

#include <cstdlib>
#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/trace/value_stream.hpp"

namespace sheaf::plan {
namespace {

using simdjson::ondemand::object;
using simdjson::ondemand::value;

// Chrome's unit is the microsecond; some writers use integer nanoseconds, which
// are too large to be microseconds since 1970.
constexpr std::int64_t kLargestMicroseconds = 100'000'000'000'000'000;

// Parses a decimal number as ns exactly: a double cannot represent nanoseconds
// since 1970.
std::int64_t nanoseconds(std::string_view text) {
  const bool is_negative = !text.empty() && text[0] == '-';
  std::size_t at = is_negative ? 1 : 0;
  std::int64_t whole = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    whole = whole * 10 + (text[at] - '0');
  std::int64_t fraction = 0;
  std::int64_t unit = 100;
  if (at < text.size() && text[at] == '.')
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      fraction += (text[at] - '0') * unit;
      unit /= 10;
    }
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E'))
    return static_cast<std::int64_t>(
        std::strtod(std::string(text).c_str(), nullptr) * 1000);
  if (at < text.size()) throw simdjson::simdjson_error(simdjson::NUMBER_ERROR);
  const std::int64_t ns =
      whole >= kLargestMicroseconds ? whole : whole * 1000 + fraction;
  return is_negative ? -ns : ns;
}

std::string_view trimmed(std::string_view token) {
  while (!token.empty() && static_cast<unsigned char>(token.back()) <= ' ')
    token.remove_suffix(1);
  return token;
}

// The contents of a string, or the text of a number.
std::string_view text_of(value& from) {
  using simdjson::ondemand::json_type;
  const json_type type = from.type();
  if (type == json_type::string) return from.get_string();
  if (type == json_type::number) return trimmed(from.raw_json_token());
  if (type == json_type::null && !from.is_null())
    throw simdjson::simdjson_error(simdjson::N_ATOM_ERROR);
  return "";
}

std::int64_t integer_of(value& from) {
  const std::string text(text_of(from));
  return std::strtoll(text.c_str(), nullptr, 10);
}

void read_argument(std::string_view key, value& from, RawEvent& event) {
  if (key == "correlation")
    event.correlation = integer_of(from);
  else if (key == "Sequence number")
    event.sequence = integer_of(from);
  else if (key == "device")
    event.device = integer_of(from);
  else if (key == "stream")
    event.stream = integer_of(from);
  else if (key == "bytes" || key == "Bytes")
    event.bytes = integer_of(from);
  else if (key == "In msg nelems")
    event.elements = integer_of(from);
  else if (key == "Collective name")
    event.collective = text_of(from);
  else if (key == "Addr")
    event.address =
        std::strtoull(std::string(text_of(from)).c_str(), nullptr, 10);
  else if (key == "Device Type")
    event.device_type = integer_of(from);
}

void read_member(std::string_view key, value& from, RawEvent& event) {
  if (key == "ph") {
    const std::string_view phase = text_of(from);
    event.phase = phase.empty() ? '\0' : phase[0];
  } else if (key == "cat") {
    event.category = text_of(from);
  } else if (key == "name") {
    event.name = text_of(from);
  } else if (key == "pid") {
    event.process = text_of(from);
  } else if (key == "tid") {
    event.thread = text_of(from);
  } else if (key == "ts") {
    event.start_ns = nanoseconds(text_of(from));
  } else if (key == "dur") {
    event.duration_ns = nanoseconds(text_of(from));
  } else if (key == "args") {
    if (from.type() != simdjson::ondemand::json_type::object) return;
    for (auto field : from.get_object()) {
      const std::string_view name = field.unescaped_key();
      value inner = field.value();
      read_argument(name, inner, event);
    }
  }
}

class TraceScan {
 public:
  TraceScan(const std::filesystem::path& path, const RawVisitor& visit)
      : stream_(path), visit_(visit) {}

  TraceHeader run() {
    if (stream_.take('[')) {
      read_events("after the last event");
      header_.bytes = stream_.offset();
      return header_;
    }
    stream_.expect('{', "at the beginning of a trace");
    while (!stream_.take('}')) {
      const std::string key(stream_.value());
      stream_.expect(':', "after a key");
      read_member_of_file(key);
      if (stream_.peek() != '}') stream_.expect(',', "between members");
    }
    if (!has_events_) stream_.fail("the list traceEvents is missing");
    header_.bytes = stream_.offset();
    return header_;
  }

 private:
  void read_member_of_file(const std::string& key) {
    if (key == "\"traceEvents\"") {
      stream_.expect('[', "at the beginning of traceEvents");
      return read_events("between events");
    }
    const std::string_view text = stream_.value();
    if (key == "\"sheaf\"") header_.model = trimmed(text);
    if (key == "\"distributedInfo\"" || key == "\"deviceProperties\"")
      parsed(text, [&](auto& document) { read_header(key, document); });
  }

  void read_events(std::string_view where) {
    has_events_ = true;
    while (!stream_.take(']')) {
      const std::string_view text = stream_.value();
      if (text[0] != '{') stream_.fail("expected an event, a JSON object");
      parsed(text, [&](auto& document) {
        RawEvent event;
        for (auto field : document.get_object()) {
          const std::string_view key = field.unescaped_key();
          value inner = field.value();
          read_member(key, inner, event);
        }
        ++header_.events;
        visit_(event);
      });
      if (stream_.peek() != ']') stream_.expect(',', where);
    }
  }

  template <class Document>
  void read_header(const std::string& key, Document& document) {
    if (key == "\"distributedInfo\"") {
      for (auto field : document.get_object()) {
        const std::string_view name = field.unescaped_key();
        value inner = field.value();
        if (name == "rank") header_.rank = integer_of(inner);
        if (name == "world_size") header_.world_size = integer_of(inner);
      }
      return;
    }
    for (auto device : document.get_array()) {
      for (auto field : device.get_object()) {
        const std::string_view name = field.unescaped_key();
        value inner = field.value();
        if (name == "name" && header_.device_name.empty())
          header_.device_name = std::string(text_of(inner));
      }
    }
  }

  template <class Use>
  void parsed(std::string_view text, Use use) {
    try {
      simdjson::ondemand::document document =
          parser_.iterate(text.data(), text.size(), stream_.readable());
      use(document);
    } catch (const simdjson::simdjson_error& error) {
      stream_.fail(concat("in the value that begins here: ", error.what()));
    }
  }

  ValueStream stream_;
  const RawVisitor& visit_;
  simdjson::ondemand::parser parser_;
  TraceHeader header_;
  bool has_events_ = false;
};

}  // namespace

TraceHeader scan_trace(const std::filesystem::path& path,
                       const RawVisitor& visit) {
  return TraceScan(path, visit).run();
}

}  // namespace sheaf::plan

#include "sheaf/plan/trace/trace_file.hpp"

#include <simdjson.h>

#include <charconv>
#include <stdexcept>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/plan/trace/trace_numbers.hpp"
#include "sheaf/plan/trace/value_stream.hpp"

namespace sheaf::plan {
namespace {

using simdjson::ondemand::object;
using simdjson::ondemand::value;

// A member of an event with an impossible value.
class BadMember : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

[[noreturn]] void refuse(std::string_view key, std::string_view text,
                         std::string_view wanted) {
  throw BadMember(concat("key '", key, "' is '", printable(text, 40),
                         "'; it must be ", wanted));
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

std::int64_t integer_of(std::string_view key, value& from) {
  const std::string_view text = text_of(from);
  const auto number = parse_integer(text);
  if (!number) refuse(key, text, "a whole number");
  return *number;
}

// Bytes are negative where memory is freed.
std::int64_t size_of(std::string_view key, value& from) {
  const std::int64_t size = integer_of(key, from);
  if (size < -kMostBytes || size > kMostBytes)
    refuse(key, concat(size), "at most 2^48");
  return size;
}

std::uint64_t address_of(std::string_view key, value& from) {
  const std::string_view text = text_of(from);
  std::uint64_t address = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, address);
  if (error != std::errc{} || at != end) refuse(key, text, "an address");
  return address;
}

std::int64_t time_of(std::string_view key, value& from) {
  const std::string_view text = text_of(from);
  const auto ns = parse_nanoseconds(text);
  if (!ns) refuse(key, text, "a number of microseconds, before the year 2096");
  return *ns;
}

std::int64_t duration_of(std::string_view key, value& from) {
  const std::int64_t ns = time_of(key, from);
  if (ns < 0 || ns > kLongestNs)
    refuse(key, concat(ns, " ns"), "from 0 to three days");
  return ns;
}

void read_argument(std::string_view key, value& from, RawEvent& event) {
  if (key == "correlation")
    event.correlation = integer_of(key, from);
  else if (key == "Sequence number")
    event.sequence = integer_of(key, from);
  else if (key == "device")
    event.device = integer_of(key, from);
  else if (key == "stream")
    event.stream = integer_of(key, from);
  else if (key == "bytes" || key == "Bytes")
    event.bytes = size_of(key, from);
  else if (key == "In msg nelems")
    event.elements = size_of(key, from);
  else if (key == "Collective name")
    event.collective = text_of(from);
  else if (key == "Addr")
    event.address = address_of(key, from);
  else if (key == "Device Type")
    event.device_type = integer_of(key, from);
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
    event.start_ns = time_of(key, from);
  } else if (key == "dur") {
    event.duration_ns = duration_of(key, from);
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
    if (stream_.take('['))
      read_events("after the last event");
    else
      read_object();
    header_.bytes = stream_.offset();
    if (stream_.peek() != 0) stream_.fail("the trace ends before this byte");
    return header_;
  }

 private:
  void read_object() {
    stream_.expect('{', "at the beginning of a trace");
    while (!stream_.take('}')) {
      const std::string key(stream_.value());
      stream_.expect(':', "after a key");
      read_member_of_file(key);
      if (stream_.peek() != '}') stream_.expect(',', "between members");
    }
    if (!has_events_) stream_.fail("the list traceEvents is missing");
  }

  void read_member_of_file(const std::string& key) {
    if (key == "\"traceEvents\"") {
      if (has_events_) stream_.fail("the list traceEvents is given twice");
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
        if (name == "rank") header_.rank = integer_of(name, inner);
        if (name == "world_size") header_.world_size = integer_of(name, inner);
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
    } catch (const BadMember& error) {
      stream_.fail(concat("in the event that begins here: ", error.what(),
                          "; record the trace again"));
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

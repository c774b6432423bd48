#include "sheaf/train/files/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cmath>

#include "sheaf/base/error.hpp"
#include "sheaf/base/system.hpp"
#include "sheaf/train/files/durable.hpp"

namespace sheaf::train {
namespace {

double seconds_since_1970() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

template <class T>
std::string bytes_of(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7)
    bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

// The protocol buffer field types that are needed here.
std::string tag(int field, int wire_type) {
  return varint(static_cast<std::uint64_t>(field << 3 | wire_type));
}
std::string varint_field(int field, std::uint64_t value) {
  return tag(field, 0) + varint(value);
}
std::string double_field(int field, double value) {
  return tag(field, 1) + bytes_of(value);
}
std::string text_field(int field, const std::string& text) {
  return tag(field, 2) + varint(text.size()) + text;
}
std::string float_field(int field, double value) {
  return tag(field, 5) + bytes_of(static_cast<float>(value));
}

std::string masked_crc(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return bytes_of(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

std::string file_name() {
  return fmt::format("events.out.tfevents.{:010}.{}.{}.v2",
                     static_cast<std::int64_t>(seconds_since_1970()),
                     host_name(), ::getpid());
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& folder)
    : path_(folder / file_name()),
      out_(path_, std::ios::binary | std::ios::app) {
  write_record(double_field(1, seconds_since_1970()) +
               text_field(3, "brain.Event:2"));
}

void EventFile::add(std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [name, value] : scalars)
    if (std::isfinite(value))
      summary += text_field(1, text_field(1, name) + float_field(2, value));
  write_record(double_field(1, seconds_since_1970()) +
               varint_field(2, static_cast<std::uint64_t>(step)) +
               text_field(5, summary));
}

void EventFile::write_record(const std::string& data) {
  const std::string length = bytes_of(std::uint64_t{data.size()});
  out_ << length << masked_crc(length) << data << masked_crc(data)
       << std::flush;
  if (!out_)
    throw IoError(concat("cannot write ", path_.string(),
                         "; check that the disk has space left, or set "
                         "output.tensorboard=false"));
}

}  // namespace sheaf::train

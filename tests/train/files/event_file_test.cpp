#include "sheaf/train/files/event_file.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "sheaf/base/error.hpp"
#include "sheaf/train/files/durable.hpp"
#include "tests/base/temporary_folder.hpp"

namespace sheaf::train {
namespace {

TEST(Crc32c, KnownValues) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  // From RFC 3720, B.4.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising(32, '\0');
  for (int i = 0; i < 32; ++i) rising[static_cast<std::size_t>(i)] = char(i);
  EXPECT_EQ(crc32c(rising), 0x46dd794eu);
  for (std::size_t cut = 0; cut <= rising.size(); ++cut)
    EXPECT_EQ(crc32c(rising.substr(cut), crc32c(rising.substr(0, cut))),
              0x46dd794eu);
}

// A decoder that shares only the checksum with the writer.
class Decoder {
 public:
  explicit Decoder(std::string_view bytes) : rest_(bytes) {}
  bool is_done() const { return rest_.empty(); }

  template <class T>
  T take() {
    T value;
    EXPECT_GE(rest_.size(), sizeof value);
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = take<std::uint8_t>();
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
  }
  std::string_view text(std::size_t size) {
    EXPECT_GE(rest_.size(), size);
    const std::string_view text = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return text;
  }

 private:
  std::string_view rest_;
};

std::uint32_t unmasked(std::uint32_t value) {
  const std::uint32_t turned = value - 0xa282ead8u;
  return (turned >> 17) | (turned << 15);
}

std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (Decoder in(file); !in.is_done();) {
    const auto size = in.take<std::uint64_t>();
    const std::string length(reinterpret_cast<const char*>(&size), 8);
    EXPECT_EQ(unmasked(in.take<std::uint32_t>()), crc32c(length));
    records.emplace_back(in.text(size));
    EXPECT_EQ(unmasked(in.take<std::uint32_t>()), crc32c(records.back()));
  }
  return records;
}

struct Event {
  double time = 0;
  std::uint64_t step = 0;
  std::string version;
  Scalars scalars;
};

std::pair<std::string, double> value_of(std::string_view bytes) {
  Decoder in(bytes);
  EXPECT_EQ(in.varint(), 1u << 3 | 2);
  const std::string tag(in.text(in.varint()));
  EXPECT_EQ(in.varint(), 2u << 3 | 5);
  const double value = in.take<float>();
  EXPECT_TRUE(in.is_done());
  return {tag, value};
}

Event event_of(const std::string& bytes) {
  Event event;
  for (Decoder in(bytes); !in.is_done();) {
    const std::uint64_t key = in.varint();
    if (key == (1 << 3 | 1)) event.time = in.take<double>();
    if (key == (2 << 3 | 0)) event.step = in.varint();
    if (key == (3 << 3 | 2)) event.version = in.text(in.varint());
    if (key != (5 << 3 | 2)) continue;
    for (Decoder values(in.text(in.varint())); !values.is_done();) {
      EXPECT_EQ(values.varint(), 1u << 3 | 2);
      event.scalars.push_back(value_of(values.text(values.varint())));
    }
  }
  return event;
}

TEST(EventFile, DecodesToWhatWasAdded) {
  const TemporaryFolder folder;
  EventFile file(folder.path());
  file.add(3, {{"train/loss", 0.5}, {"train/accuracy", 0.25}});
  file.add(70000,
           {{"x", 1.5}, {"nothing", std::numeric_limits<double>::quiet_NaN()}});
  const auto records = records_of(read_whole(file.path()));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(event_of(records[0]).version, "brain.Event:2");
  EXPECT_GT(event_of(records[0]).time, 1.6e9);
  const Event first = event_of(records[1]);
  EXPECT_EQ(first.step, 3u);
  EXPECT_EQ(first.scalars,
            (Scalars{{"train/loss", 0.5}, {"train/accuracy", 0.25}}));
  const Event second = event_of(records[2]);
  EXPECT_EQ(second.step, 70000u);
  EXPECT_EQ(second.scalars, (Scalars{{"x", 1.5}}));
  EXPECT_EQ(file.path().filename().string().rfind("events.out.tfevents.", 0),
            0u);
}

TEST(EventFile, AMissingFolderIsAnIoError) {
  const TemporaryFolder folder;
  EXPECT_THROW(EventFile(folder.path() / "none"), IoError);
}

}  // namespace
}  // namespace sheaf::train

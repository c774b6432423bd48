#include "sheaf/plan/trace/trace_file.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/plan/trace/trace_text.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::plan {
namespace {

TEST(TraceFile, GivesEventsWithTheirArguments) {
  TraceText trace;
  trace.add("cpu_op", "aten::\\\"odd\\\\\\\\\\\" name", 3, 1.5, 2.25,
            "\"Sequence number\": 12, \"Fwd thread id\": 1, \"Input Dims\": "
            "[[2, 3], []], \"correlation\": \"77\"");
  trace.add("kernel", "nccl", 40, 9, 1,
            "\"stream\": 40, \"device\": 0, \"correlation\": 5, \"In msg "
            "nelems\": 100, \"dtype\": \"Float\", \"Collective name\": "
            "\"allreduce\", \"Group size\": 2");
  for (const auto& path : {trace.write(), trace.write_compressed()}) {
    int count = 0;
    const TraceHeader header = scan_trace(path, [&](const RawEvent& event) {
      if (count++ == 0) {
        EXPECT_EQ(event.name, "aten::\"odd\\\\\" name");
        EXPECT_EQ(event.thread, "3");
        EXPECT_EQ(event.start_ns, 1712195495000001500);
        EXPECT_EQ(event.duration_ns, 2250);
        EXPECT_EQ(event.sequence, 12);
        EXPECT_EQ(event.correlation, 77);
      } else {
        EXPECT_EQ(event.elements, 100);
        EXPECT_EQ(event.collective, "allreduce");
        EXPECT_EQ(event.sequence, -1);
      }
    });
    EXPECT_EQ(count, 2);
    EXPECT_EQ(header.events, 2u);
    EXPECT_EQ(header.rank, 1);
    EXPECT_EQ(header.world_size, 2);
    EXPECT_EQ(header.device_name, "GPU");
    EXPECT_EQ(header.bytes, trace.text().size() - 1);
  }
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::vector<std::int64_t> starts_in(const std::filesystem::path& path) {
  std::vector<std::int64_t> starts;
  scan_trace(path,
             [&](const RawEvent& event) { starts.push_back(event.start_ns); });
  return starts;
}

TEST(TraceFile, TakesBareListsAndNanoseconds) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.json";
  write_text(path,
             "[ {\"ph\":\"X\",\"ts\":1712195495502094512,\"dur\":1},\n"
             "  {\"ts\": -1.5}, {\"ts\": \"2.25\"}, {} ]");
  EXPECT_EQ(starts_in(path),
            (std::vector<std::int64_t>{1712195495502094512, -1500, 2250, 0}));
}

TEST(TraceFile, TimesAreExactToTheNanosecond) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.json";
  write_text(path,
             "[{\"ts\": 0.999}, {\"ts\": 909.009}, {\"ts\": 1.0009}, "
             "{\"ts\": 1.5e3}, {\"ts\": 100000000000000000}]");
  EXPECT_EQ(starts_in(path),
            (std::vector<std::int64_t>{999, 909009, 1000, 1500000,
                                       100000000000000000}));
}

// Texts longer than one read, with quotes at every boundary.
TEST(TraceFile, ValuesMayCrossPieces) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.json";
  for (const std::size_t length :
       {std::size_t{1} << 20, (std::size_t{1} << 20) - 21,
        (std::size_t{1} << 20) - 20}) {
    const std::string name = std::string(length, 'x') + "\\\\\\\"y";
    write_text(path, "[{\"name\": \"" + name + "\", \"ts\": 1}, {\"ts\": 2}]");
    EXPECT_EQ(starts_in(path), (std::vector<std::int64_t>{1000, 2000}));
  }
}

TEST(TraceFile, DamageIsReportedWithItsOffset) {
  TraceText trace;
  for (int i = 0; i < 100; ++i) trace.op("aten::add", 1, i * 10.0, 5);
  const std::string good = trace.text();
  const auto path = trace.folder() / "bad.json";
  const auto is_reported = [&](const std::string& text,
                               std::initializer_list<std::string> parts) {
    write_text(path, text);
    expect_throws<IoError>([&] { scan_trace(path, [](const RawEvent&) {}); },
                           parts);
  };
  is_reported("", {"bad.json, byte 0", "ends early"});
  is_reported("{\"a\": 1}", {"the list traceEvents is missing"});
  is_reported("{\"traceEvents\": [1]}", {"byte 17", "expected an event"});
  is_reported("{\"traceEvents\": [{\"ph\": nonsense}]}", {"byte 17"});
  is_reported("{\"traceEvents\": [{}{}]}", {"byte 19", "between events"});
  const std::size_t cut = good.size() / 2;
  is_reported(good.substr(0, cut), {"ends early", "byte "});
  // Wherever the file ends, an error is reported and nothing else happens.
  for (std::size_t end = 0; end + 3 < good.size(); end += 97)
    is_reported(good.substr(0, end), {"byte "});
  expect_throws<IoError>(
      [&] { scan_trace(trace.folder() / "none", [](const RawEvent&) {}); },
      {"none", "No such file"});
}

TEST(TraceFile, NumbersOutOfRangeAreErrors) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.json";
  const auto is_reported = [&](const std::string& member,
                               const std::string& key) {
    write_text(path, "[{}, {" + member + "}]");
    expect_throws<IoError>(
        [&] { scan_trace(path, [](const RawEvent&) {}); },
        {"t.json, byte 5: in the event that begins here: key '" + key + "'",
         "record the trace again"});
  };
  is_reported("\"ts\": 99999999999999999999", "ts");
  is_reported("\"ts\": 1e300", "ts");
  is_reported("\"ts\": \"soon\"", "ts");
  is_reported("\"ts\": [1]", "ts");
  is_reported("\"dur\": -0.001", "dur");
  is_reported("\"dur\": 1e15", "dur");
  const auto argument_is_reported = [&](const std::string& key,
                                        const std::string& value) {
    is_reported("\"args\": {\"" + key + "\": " + value + "}", key);
  };
  argument_is_reported("correlation", "9223372036854775808");
  argument_is_reported("stream", "\"x\"");
  argument_is_reported("Bytes", "-9223372036854775808");
  argument_is_reported("bytes", "1e17");
  argument_is_reported("In msg nelems", "0.5");
  argument_is_reported("Addr", "18446744073709551616");
  argument_is_reported("Addr", "-1");
}

TEST(TraceFile, HasOneListOfEventsAndNothingBehindIt) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.json";
  const auto error = [&](const std::string& text) {
    write_text(path, text);
    return error_of<IoError>([&] { scan_trace(path, [](const RawEvent&) {}); });
  };
  EXPECT_NE(
      error("{\"traceEvents\": [], \"traceEvents\": []}").find("given twice"),
      std::string::npos);
  EXPECT_NE(error("[] []").find("byte 3: the trace ends before"),
            std::string::npos);
}

// 100 MiB of blanks compress to 100 KiB.
TEST(TraceFile, CompressedWithoutEndIsAnError) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "t.json.gz";
  gzFile file = gzopen(path.c_str(), "wb9");
  const std::string blanks(1 << 20, ' ');
  gzputs(file, "{\"traceEvents\": [");
  for (int i = 0; i < 100; ++i)
    gzwrite(file, blanks.data(), static_cast<unsigned>(blanks.size()));
  gzclose(file);
  expect_throws<IoError>(
      [&] { scan_trace(path, [](const RawEvent&) {}); },
      {"t.json.gz, byte ", "compressed more than 200 times", "gzip -d"});
}

TEST(TraceFile, TruncatedCompressedFilesAreErrors) {
  TraceText trace;
  for (int i = 0; i < 1000; ++i) trace.op("aten::add", 1, i * 10.0, 5);
  const auto path = trace.write_compressed();
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  expect_throws<IoError>([&] { scan_trace(path, [](const RawEvent&) {}); },
                         {"ends early", "byte "});
}

}  // namespace
}  // namespace sheaf::plan

#include "sheaf/tensor/record/trace_text.hpp"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <map>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/tensor/record/traced_layer.hpp"

namespace sheaf::tensor {
namespace {

class TraceText : public TracedLayer {
 protected:
  std::string lines_of(const Recorder& recorder, const EventLines& lines) {
    const auto path = folder_.path() / "lines";
    TextFile file(path);
    const std::size_t count = write_events(file, recorder, lines);
    file.finish();
    const std::string text = read_file(path);
    EXPECT_EQ(times(text, "\n"), count);
    return text;
  }

  // How often `words` occur.
  static std::size_t times(const std::string& text, const std::string& words) {
    std::size_t count = 0;
    for (std::size_t at = text.find(words); at != text.npos; ++count)
      at = text.find(words, at + words.size());
    return count;
  }
};

TEST_F(TraceText, TheFileIsInTheProfilersWords) {
  Recorder recorder;
  compute();
  recorder.stop();
  const Json trace = written(recorder);
  EXPECT_EQ(trace["distributedInfo"]["rank"], 1);
  EXPECT_EQ(trace["deviceProperties"][0]["name"], "a \"CPU\"");
  EXPECT_EQ(trace["sheaf"]["version"], 1);
  std::map<std::string, Json> by_name;
  for (const Json& event : trace["traceEvents"])
    by_name.try_emplace(event["name"], event);
  const Json& product = by_name.at("aten::mm");
  EXPECT_EQ(product["cat"], "cpu_op");
  EXPECT_EQ(product["args"]["Input Dims"], Json::parse("[[4, 3], [3, 5]]"));
  EXPECT_EQ(by_name.at("sheaf::phase forward")["cat"], "user_annotation");
  const Json& engine =
      by_name.at("autograd::engine::evaluate_function: MmBackward0");
  EXPECT_EQ(engine["cat"], "cpu_op");
  EXPECT_EQ(engine["args"]["Sequence number"],
            product["args"]["Sequence number"]);
  const Json& taking = by_name.at(
      "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad");
  EXPECT_FALSE(taking["args"].contains("Sequence number"));
}

TEST_F(TraceText, HooksBeforeANodeDoNotHideItsNumber) {
  const at::Tensor product = torch::mm(torch::ones({4, 3}), weight_);
  product.register_hook([](const at::Tensor& delta) { return delta * 2; });
  Recorder recorder;
  product.sum().backward();
  recorder.stop();
  const Json trace = written(recorder);
  for (const Json& event : trace["traceEvents"])
    if (event["name"] == "autograd::engine::evaluate_function: MmBackward0")
      EXPECT_TRUE(event["args"].contains("Sequence number"));
}

TEST_F(TraceText, PackedFilesHoldTheSame) {
  Recorder recorder;
  compute();
  recorder.stop();
  const Json plain = written(recorder);
  const auto packed = folder_.path() / "a.json.gz";
  write_trace(packed, recorder, {}, "");
  EXPECT_LT(std::filesystem::file_size(packed),
            std::filesystem::file_size(folder_.path() / "a.json") / 2);
  EXPECT_EQ(read_file(packed).substr(0, 2), "\x1f\x8b");
  EXPECT_EQ(folder_.names(), (std::vector<std::string>{"a.json", "a.json.gz"}));
  expect_throws<IoError>(
      [&] { write_trace(folder_.path() / "no" / "a.json", recorder, {}, ""); },
      {"no/a.json"});
}

TEST_F(TraceText, ListsOfTensorsHaveSizesToo) {
  Recorder recorder;
  torch::cat({torch::ones({2, 1}), torch::ones({3, 1})});
  recorder.stop();
  const Json trace = written(recorder);
  for (const Json& event : trace["traceEvents"])
    if (event["name"] == "aten::cat")
      EXPECT_EQ(event["args"]["Input Dims"],
                Json::parse("[[[2, 1], [3, 1]], []]"));
}

TEST_F(TraceText, CollectivesTellWhatTheyExchange) {
  Recorder recorder;
  comm::run_threads(2, [](const comm::Group& group) {
    std::vector<float> data(100);
    comm::all_reduce(group, data).wait();
  });
  recorder.stop();
  int found = 0;
  const Json trace = written(recorder);
  for (const Json& event : trace["traceEvents"]) {
    if (event["name"] != "all_reduce") continue;
    EXPECT_EQ(event["cat"], "collective");
    EXPECT_EQ(event["args"]["Collective name"], "all_reduce");
    EXPECT_EQ(event["args"]["In msg nelems"], 100);
    EXPECT_EQ(event["args"]["Bytes"], 400);
    EXPECT_EQ(event["args"]["dtype"], "f32");
    EXPECT_EQ(event["args"]["Group size"], 2);
    ++found;
  }
  EXPECT_EQ(found, 2);
}

TEST_F(TraceText, AllocationsAreWrittenInFull) {
  Recorder recorder;
  Recorder::note({.at_ns = 5'000'003,
                  .address = 4096,
                  .bytes = -32,
                  .total = 96,
                  .device_type = 1,
                  .device = 3});
  recorder.stop();
  EXPECT_EQ(lines_of(recorder, {.shift_ns = 2'040'000}),
            concat("\n{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", "
                   "\"s\": \"t\", \"name\": \"[memory]\", \"pid\": ",
                   ::getpid(), ", \"tid\": ", ::syscall(SYS_gettid),
                   ", \"ts\": 7040.003, \"args\": {\"Device Type\": 1, "
                   "\"Device Id\": 3, \"Addr\": 4096, \"Bytes\": -32, "
                   "\"Total Allocated\": 96}}"));
}

TEST_F(TraceText, LinesAreSeparatedByCommas) {
  Recorder recorder;
  Recorder::note({});
  Recorder::note({});
  recorder.stop();
  const std::string first = lines_of(recorder, {});
  EXPECT_EQ(first.substr(0, 2), "\n{");
  EXPECT_EQ(times(first, "\n"), 2u);
  EXPECT_NE(first.find("}},\n{"), std::string::npos);
  EXPECT_EQ(lines_of(recorder, {.is_first = false}), "," + first);
}

// The text is written in pieces of 1 MiB.
TEST_F(TraceText, ManyLinesAreWrittenOnce) {
  constexpr std::size_t kLines = 10'000;
  Recorder recorder;
  for (std::size_t i = 0; i < kLines; ++i)
    Recorder::note({.address = 1'000'000 + i});
  recorder.stop();
  const std::string text = lines_of(recorder, {});
  EXPECT_GT(text.size(), std::size_t{1} << 20);
  EXPECT_EQ(times(text, "\n"), kLines);
  std::size_t at = 0;
  for (std::size_t i = 0; i < kLines; ++i, ++at) {
    at = text.find("\"Addr\": ", at);
    ASSERT_NE(at, std::string::npos) << i;
    ASSERT_EQ(text.substr(at + 8, 7), std::to_string(1'000'000 + i));
  }
}

TEST_F(TraceText, CollectivesCanBeWrittenAlone) {
  Recorder recorder;
  compute();
  Recorder::note({});
  comm::run_threads(2, [&](const comm::Group& group) {
    std::vector<float> data(3);
    comm::all_reduce(group, data).wait();
  });
  recorder.stop();
  const std::string text = lines_of(recorder, {.has_operators = false});
  EXPECT_EQ(times(text, "\n"), times(text, "\"cat\": \"collective\""));
  EXPECT_EQ(times(text, "\"name\": \"all_reduce\""), 2u);
}

TEST_F(TraceText, EventsThatHaveNotEndedAreOmitted) {
  Recorder recorder;
  const Scope open("sheaf::open");
  { const Scope ended("an \"ended\" one"); }
  recorder.stop();
  const std::string text = lines_of(recorder, {});
  EXPECT_NE(text.find(R"("name": "an \"ended\" one")"), std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("\"args\": {}}")) << text;
}

TEST_F(TraceText, TheHeadNamesTheRank) {
  Recorder recorder;
  recorder.stop();
  const auto path = folder_.path() / "b.json";
  write_trace(path, recorder, {.rank = 3, .ranks = 5}, "");
  const Json trace = Json::parse(read_file(path));
  EXPECT_EQ(trace["distributedInfo"],
            Json::parse(R"({"backend": "sheaf", "rank": 3, "world_size": 5})"));
  EXPECT_FALSE(trace.contains("sheaf"));
  ASSERT_EQ(trace["traceEvents"].size(), 1u);
  EXPECT_EQ(trace["traceEvents"][0]["args"]["name"], "rank 3");
  EXPECT_EQ(trace["traceEvents"][0]["pid"], ::getpid());
}

using Names = std::vector<std::string>;

TEST(TextFile, AppearsWhenItIsComplete) {
  const TemporaryFolder folder;
  {
    TextFile file(folder.path() / "a");
    file.write("one ");
    file.write("");
    file.write("two");
    EXPECT_EQ(folder.names(), Names{"a.unfinished"});
    file.finish();
  }
  EXPECT_EQ(folder.names(), Names{"a"});
  EXPECT_EQ(read_file(folder.path() / "a"), "one two");
  { TextFile(folder.path() / "b").write("x"); }
  EXPECT_EQ(folder.names(), Names{"a"});
}

TEST(TextFile, IsCompressedByItsName) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.gz";
  const std::string text(5000, 'x');
  {
    TextFile file(path);
    file.write(text);
    file.finish();
  }
  EXPECT_LT(std::filesystem::file_size(path), 100u);
  std::string unpacked(6000, '\0');
  const gzFile packed = ::gzopen(path.c_str(), "rb");
  EXPECT_EQ(::gzread(packed, unpacked.data(), 6000), 5000);
  ::gzclose(packed);
  EXPECT_EQ(unpacked.substr(0, 5000), text);
}

TEST(TextFile, ErrorsNameTheFile) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "no" / "a.json";
  EXPECT_EQ(error_of<IoError>([&] { TextFile{missing}; }),
            missing.string() +
                ": cannot be written; check that the folder exists and the "
                "disk has free space");
  const auto taken = folder.path() / "taken";
  std::filesystem::create_directory(taken);
  TextFile file(taken);
  expect_throws<IoError>(
      [&] { file.finish(); },
      {taken.string() + ": the finished file cannot be renamed"});
}

}  // namespace
}  // namespace sheaf::tensor

#include "sheaf/comm/ddl/dump.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "sheaf/base/error.hpp"
#include "tests/comm/ddl/dump_folder.hpp"
#include "tests/support/exact.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::comm {
namespace {

Dump example() {
  Dump dump;
  dump.rank = 1;
  dump.world_rank = 3;
  dump.group = 2;
  dump.iteration = 12;
  dump.call = {.operation = Operation::kAllReduceN,
               .dtype = DType::kF32,
               .op = ReduceOp::kAvg,
               .flags = 5,
               .root = 0,
               .count = 6,
               .name_hash = 77,
               .sequence = 31};
  dump.counts = {4, 2};
  dump.check = 0.5;
  dump.hosts = {{"a", {0, 2}}, {"b", {1}}};
  dump.options = "-mode b:2x1";
  dump.transport = "mpi";
  dump.verdict = {.checked = 6,
                  .wrong = 1,
                  .nan_inputs = 1,
                  .first_nan_input = 4,
                  .worst = {.element = 3,
                            .fault = Fault::kError,
                            .result = 2,
                            .reference = 1,
                            .error = 1,
                            .bound = 1e-6}};
  dump.worst_rank = 2;
  dump.worst = {.element = 5,
                .fault = Fault::kNan,
                .result = std::numeric_limits<double>::quiet_NaN(),
                .reference = -std::numeric_limits<double>::infinity()};
  dump.input = test::exact_data(DType::kF32, ReduceOp::kAvg, 1, 6);
  dump.output = test::exact_data(DType::kF32, ReduceOp::kAvg, 2, 6);
  dump.window_first = 3;
  dump.window_count = 2;
  dump.window = test::exact_data(DType::kF32, ReduceOp::kAvg, 0, 6);
  return dump;
}

TEST(Dump, ReadsWhatItWrites) {
  const test::DumpFolder folder;
  const Dump dump = example();
  write_dump(dump, folder.file("d"));
  const Dump read = read_dump(folder.file("d"));
  EXPECT_EQ(read.rank, 1);
  EXPECT_EQ(read.world_rank, 3);
  EXPECT_EQ(read.group, 2);
  EXPECT_EQ(read.iteration, 12u);
  EXPECT_EQ(read.call, dump.call);
  EXPECT_EQ(read.counts, dump.counts);
  EXPECT_EQ(read.check, 0.5);
  EXPECT_EQ(read.hosts, dump.hosts);
  EXPECT_EQ(read.size(), 3);
  EXPECT_EQ(read.options, dump.options);
  EXPECT_EQ(read.transport, "mpi");
  EXPECT_EQ(read.verdict.wrong, 1u);
  EXPECT_EQ(read.verdict.first_nan_input, 4u);
  EXPECT_EQ(read.verdict.worst.bound, 1e-6);
  EXPECT_EQ(read.worst_rank, 2);
  EXPECT_TRUE(std::isnan(read.worst.result));
  EXPECT_TRUE(std::isinf(read.worst.reference));
  EXPECT_EQ(read.worst.fault, Fault::kNan);
  EXPECT_EQ(read.input, dump.input);
  EXPECT_EQ(read.output, dump.output);
  EXPECT_EQ(read.window_first, 3u);
  EXPECT_EQ(read.window, dump.window);
}

TEST(Dump, IsNamedByRankAndIteration) {
  const test::DumpFolder folder;
  EXPECT_EQ(dump_path(3, 12, 0), folder.file("sheaf.dump.3.12"));
  EXPECT_EQ(dump_path(3, 12, 2), folder.file("sheaf.dump.3.12.group2"));
}

// No byte can be missing or wrong without an IoError that names the file.
TEST(Dump, NoticesEveryCut) {
  const std::string bytes = format_dump(example());
  for (std::size_t length = 0; length < bytes.size(); ++length) try {
      parse_dump(bytes.substr(0, length), "the.file");
      FAIL() << "cut at " << length;
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find("the.file: at offset "),
                std::string::npos)
          << error.what();
    }
}

TEST(Dump, NoticesEveryFlippedBit) {
  const std::string bytes = format_dump(example());
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    EXPECT_THROW(parse_dump(damaged, "the.file"), IoError) << at;
  }
  EXPECT_THROW(parse_dump(bytes + "x", "the.file"), IoError);
}

std::string damage_of(const std::string& bytes) {
  return error_of<IoError>([&] { parse_dump(bytes, "the.file"); });
}

TEST(Dump, ErrorNamesTheDamagedOffset) {
  const std::string bytes = format_dump(example());
  EXPECT_EQ(damage_of("GIF89a-and-more-of-it"),
            "the.file: at offset 0: not a dump file: it does not begin with "
            "SHEAFDMP");
  std::string later = bytes;
  later[8] = 9;
  EXPECT_EQ(damage_of(later),
            "the.file: at offset 8: this dump has version 9, this program "
            "reads 1");
  std::string damaged = bytes;
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  const std::size_t window = bytes.size() - example().window.size();
  EXPECT_NE(damage_of(damaged).find(
                concat("at offset ", window, ": section 'window'")),
            std::string::npos)
      << damage_of(damaged);
}

// Files whose checksums are right and whose numbers are not.
std::string refusal_of(const std::function<void(Dump&)>& change) {
  Dump dump = example();
  change(dump);
  return damage_of(format_dump(dump));
}

TEST(Dump, RefusesSizesThatWrapAround) {
  const auto wrap = [](Dump& dump) {
    dump.call.count = std::uint64_t{1} << 62;  // times 4 bytes is 0
    dump.counts = {dump.call.count};
    dump.input.clear();
    dump.output.clear();
  };
  EXPECT_NE(refusal_of(wrap).find("section 'input' has 0 bytes"),
            std::string::npos)
      << refusal_of(wrap);
  const auto wrap_window = [](Dump& dump) {
    dump.call = {.operation = Operation::kAllReduce, .dtype = DType::kU8};
    dump.call.count = std::uint64_t{1} << 63;
    dump.counts = {dump.call.count};
    dump.window_first = 0;
    dump.window_count = dump.call.count;
    dump.window.clear();
  };
  EXPECT_NE(refusal_of(wrap_window), "");
}

TEST(Dump, RefusesAWindowBeyondTheElements) {
  EXPECT_NE(refusal_of([](Dump& dump) {
              dump.window_first = 5;
            }).find("key 'window.first' must be a whole number from 0 to 4"),
            std::string::npos);
  EXPECT_NE(
      refusal_of([](Dump& dump) { dump.window_first = ~std::uint64_t{0} - 1; }),
      "");
  EXPECT_NE(refusal_of([](Dump& dump) {
              dump.window_count = 0;
              dump.window.clear();
            }),
            "");
}

TEST(Dump, RefusesRanksThatAreNotThere) {
  EXPECT_NE(refusal_of([](Dump& dump) {
              dump.rank = 3;
            }).find("key 'rank' must be a whole number from 0 to 2, not 3"),
            std::string::npos);
  EXPECT_NE(refusal_of([](Dump& dump) { dump.worst_rank = -1; }), "");
  EXPECT_NE(refusal_of([](Dump& dump) { dump.hosts[1].ranks = {2}; }), "");
  EXPECT_NE(refusal_of([](Dump& dump) { dump.hosts[1].ranks = {-1}; }), "");
  EXPECT_NE(refusal_of([](Dump& dump) {
              dump.hosts.clear();
              dump.window.clear();
            }).find("at least one rank"),
            std::string::npos);
}

TEST(Dump, RefusesValuesThatNoCallHas) {
  for (const auto& change : std::vector<std::function<void(Dump&)>>{
           [](Dump& dump) {
             dump.counts = {4, 1};
           },
           [](Dump& dump) {
             dump.counts = {6, ~std::uint64_t{0}, 1};
           },
           [](Dump& dump) { dump.worst.fault = static_cast<Fault>(200); },
           [](Dump& dump) { dump.call.op = ReduceOp::kProduct; },
           [](Dump& dump) { dump.check = -1; },
           [](Dump& dump) { dump.call.operation = Operation::kSend; }})
    EXPECT_NE(refusal_of(change), "");
}

// With a checksum that is right.
TEST(Dump, RefusesAHeaderOfAnotherShape) {
  const auto file_of = [](const std::string& header) {
    std::string bytes(kDumpMagic);
    for (const std::uint32_t value :
         {kDumpVersion, static_cast<std::uint32_t>(header.size()),
          crc32(header)})
      bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    return bytes + header;
  };
  EXPECT_EQ(damage_of(file_of("{}")),
            "the.file: at offset 20: the header: key 'fingerprint' is missing");
  for (const std::string header :
       {"", "[]", "{\"fingerprint\": 1}", "{\"fingerprint\": {\"dtype\": 1}}"})
    EXPECT_NE(damage_of(file_of(header)), "") << header;
  EXPECT_NE(damage_of(file_of(std::string(1 << 20, '['))), "");
}

TEST(Dump, MissingFileIsNamed) {
  const std::string path = "/nonexistent/sheaf.dump.0.1";
  expect_throws<IoError>([&] { read_dump(path); }, {path});
}

}  // namespace
}  // namespace sheaf::comm

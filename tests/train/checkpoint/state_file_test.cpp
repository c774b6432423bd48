#include "sheaf/train/checkpoint/state_file.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>

#include "sheaf/train/files/durable.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::train {
namespace {

using nlohmann::ordered_json;

const std::vector<CheckpointFile> kFiles{{"weights.pt", 10, 1},
                                         {"optimizer.pt", 20, 0xffffffff}};

RunState make_numbers() {
  RunState state;
  state.step = 123;
  state.class_names = {"cat", "T\xfcr", ""};
  state.best = 0.5;
  state.best_step = 100;
  state.best_metric = "validation_loss";
  state.totals.times.has_factors = true;
  state.totals.train.rows = 7;
  return state;
}

// The text after a change, with a valid checksum.
std::string changed(const std::function<void(ordered_json&)>& change) {
  auto json = ordered_json::parse(state_text(make_numbers(), kFiles));
  json.erase("crc32c");
  change(json);
  json["crc32c"] = crc32c(json.dump());
  return json.dump();
}

// A text that begins so, with a valid checksum.
std::string sealed(const std::string& text) {
  return concat(text, ",\"crc32c\":", crc32c(text + "}"), "}");
}

void expect_invalid(const std::string& text, const std::string& why) {
  expect_throws<IoError>([&] { parse_state(text, "step-7"); },
                         {"step-7 is invalid", "state.json", why, "older"});
}

TEST(StateFile, ReadsBackTheSame) {
  const RunState state = make_numbers();
  const std::string text = state_text(state, kFiles);
  const KnownState known = parse_state(text, "step-7");
  EXPECT_EQ(known.numbers.class_names, state.class_names);
  EXPECT_EQ(known.numbers.best, state.best);
  EXPECT_TRUE(known.numbers.totals.times.has_factors);
  EXPECT_TRUE(std::isnan(known.numbers.totals.train.loss));
  ASSERT_EQ(known.files.size(), 2u);
  EXPECT_EQ(known.files[1].name, "optimizer.pt");
  EXPECT_EQ(known.files[1].bytes, 20u);
  EXPECT_EQ(known.files[1].checksum, 0xffffffffu);
  EXPECT_EQ(state_text(known.numbers, known.files), text);
}

// State files of earlier versions lack some keys.
TEST(StateFile, NewKeysMayBeAbsent) {
  const std::string text = changed([](ordered_json& json) {
    for (const char* key : {"totals", "examples", "class_names", "best_metric",
                            "pretrained_stages"})
      json.erase(key);
  });
  EXPECT_EQ(parse_state(text, "").numbers.step, 123);
}

TEST(StateFile, EveryCutAndFlipIsSeen) {
  const std::string text = state_text(make_numbers(), kFiles);
  for (std::size_t i = 0; i + 2 < text.size(); ++i) {
    EXPECT_THROW(parse_state(text.substr(0, i), ""), IoError) << i;
    std::string flipped = text;
    flipped[i] ^= 1;
    // White space is not part of the checksum.
    if (text[i] != ' ' && text[i] != '\n') {
      EXPECT_THROW(parse_state(flipped, ""), IoError) << i;
    }
  }
}

TEST(StateFile, OtherTypesAndRangesAreRefused) {
  using Value = ordered_json;
  struct Case {
    const char* key;
    Value value;
    const char* why;
  };
  const Case cases[] = {
      {"step", "3", "'step' is not an integer"},
      {"step", 1.5, "'step' is not an integer"},
      {"step", 1e300, "'step' is not an integer"},
      {"step", -1, "'step' is -1"},
      {"step", std::uint64_t{1} << 63, "'step' is not an integer"},
      {"step", std::int64_t{1} << 60, "out of range"},
      {"step", nullptr, "'step' is not an integer"},
      {"best_step", -2, "'best_step' is -2"},
      {"has_stopped_early", 1, "'has_stopped_early' is not true or false"},
      {"best", "0.5", "'best' is not a number"},
      {"best_metric", Value::array({300}), "neither text nor bytes"},
      {"best_metric", Value::array({-1}), "neither text nor bytes"},
      {"class_names", "cat", "'class_names' is not a list"},
      {"class_names", Value::array({1}), "neither text nor bytes"},
      {"totals", 1, "'totals' 'seconds' is missing"},
      {"format", 3, "its format is 3"},
      {"format", "1", "is not a count"},
      {"shards", 0, "0 shards"},
      {"shards", -1, "is not a count"},
      {"shards", 2, "weights-00000-of-00002.pt is missing"},
      {"shards", std::uint64_t{1} << 40, "1099511627776 shards"},
      {"weights.pt", 1, "its entry of weights.pt is missing"},
      {"optimizer.pt", Value{{"bytes", -1}, {"crc32c", 1}}, "not a count"},
      {"optimizer.pt", Value{{"bytes", 1}, {"crc32c", 1LL << 32}}, "32 bits"}};
  for (const Case& one : cases)
    expect_invalid(
        changed([&](ordered_json& json) { json[one.key] = one.value; }),
        one.why);
  expect_invalid(changed([](ordered_json& json) { json.erase("epoch"); }),
                 "'epoch' is missing");
  expect_invalid(changed([](ordered_json& json) { json.erase("format"); }),
                 "missing");
}

// Names in the file have no effect: paths could lead anywhere.
TEST(StateFile, NamesOfFilesAreFixed) {
  const std::string text = changed([](ordered_json& json) {
    json["../../secret"] = json["weights.pt"];
    json["weights.pt"]["name"] = "../../secret";
  });
  EXPECT_EQ(parse_state(text, "").files[0].name, "weights.pt");
}

TEST(StateFile, DepthSizeAndKeysAreLimited) {
  expect_invalid(sealed("{\"a\":" + std::string(1 << 20, '[')),
                 "nested too deeply");
  std::string objects;
  for (int i = 0; i < 100000; ++i) objects += "{\"a\":";
  expect_invalid(sealed(objects), "nested too deeply");
  expect_invalid(std::string(kMostStateBytes + 1, ' '), "too large");
  std::string keys = "{";
  for (int i = 0; i <= 6 * kMostShards + 1000; ++i)
    keys += concat(i > 0 ? "," : "", "\"", i, "\":0");
  expect_invalid(sealed(keys), "too many keys");
}

TEST(StateFile, OtherTextsAreNoState) {
  for (const char* text :
       {"", "{}", "[]", "null", "{\"crc32c\": 1}", "{\"crc32c\": {}}",
        "{\"crc32c\": 1", "\xff", ",\"crc32c\":}", "}"})
    expect_invalid(text, "");
  for (const char* text : {"{\"a\":1", "{\"a\"", "[", "", "{\"a\":\"\xff\""})
    expect_invalid(sealed(text), "");
}

TEST(StateFile, WhatCouldNotBeReadIsNotWritten) {
  RunState state;
  state.class_names = {std::string(kMostStateBytes, 'x')};
  EXPECT_THROW(state_text(state, kFiles), UsageError);
  const std::vector<CheckpointFile> many(2 * (kMostShards + 1));
  EXPECT_THROW(state_text({}, many), UsageError);
}

TEST(StateFile, AFileMustBeAsDescribed) {
  check_file(kFiles[0], kFiles[0], "step-7");
  expect_throws<IoError>(
      [] {
        check_file(kFiles[0], {"weights.pt", 9, 1}, "step-7");
      },
      {"step-7", "weights.pt has 9 bytes, not 10"});
  expect_throws<IoError>(
      [] {
        check_file(kFiles[0], {"weights.pt", 10, 2}, "step-7");
      },
      {"step-7", "the checksum of weights.pt is wrong"});
}

}  // namespace
}  // namespace sheaf::train

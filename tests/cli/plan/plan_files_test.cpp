#include "sheaf/cli/plan/plan_files.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::cli {
namespace {

TEST(DeviceFile, HasRatesAndMemory) {
  const auto device = parse_device(
      "name: Tesla T4\ntflops: {f32: 8.1, f16: 65}\nmemory_gbs: 320\n"
      "memory: 15G\n",
      "t4.yaml");
  EXPECT_EQ(device.name, "Tesla T4");
  EXPECT_EQ(device.tflops.at(plan::Precision::kF16), 65);
  EXPECT_EQ(device.memory_bytes, std::int64_t{15} << 30);
}

TEST(DeviceFile, ErrorsNameTheLine) {
  const auto is_reported = [](const std::string& text,
                              const std::string& part) {
    expect_throws<UsageError>([&] { parse_device(text, "t4.yaml"); },
                              {"t4.yaml", part});
  };
  is_reported("", "line 1: this is not a device");
  is_reported("- a", "line 1: this is not a device");
  is_reported("name: a\ntflops: 3", "line 2: tflops must be a mapping");
  is_reported("name: a\ntflops: {f8: 3}", "line 2: unknown precision");
  is_reported("memory: lots", "line 1: 'lots' is not a size");
  is_reported("memory_gbs: .inf", "line 1: the value must be a number");
  is_reported("memory_gbs: .nan", "line 1: the value must be a number");
  is_reported("memory_gbs: [1]", "line 1");
  is_reported("name: a\nname: b", ":2: name is given twice");
  is_reported("name: &a [*a]", ":1: a value contains itself");
  is_reported("nmae: a", "unknown key nmae");
}

TEST(OperatorFile, ListsOperators) {
  const auto list = parse_custom_operators(
      "operators:\n  - name: mine::product\n    backward: [MineBackward]\n"
      "    may_change: true\n",
      "ops.yaml");
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].backward, std::vector<std::string>{"MineBackward"});
}

TEST(OperatorFile, ErrorsNameTheLine) {
  for (const char* text :
       {"", "a", "[]", "{}", "operators: 1", "operators: [1]",
        "operators: [{}]", "operators: [{name: [1]}]",
        "operators: [{name: a, backward: 1}]",
        "operators: [{name: a, backward: [[1]]}]",
        "operators: [{name: a, may_change: perhaps}]",
        "operators: [{name: a, other: 1}]", "operators: &a [*a]"})
    expect_throws<UsageError>([&] { parse_custom_operators(text, "o.yaml"); },
                              {"o.yaml"});
}

}  // namespace
}  // namespace sheaf::cli

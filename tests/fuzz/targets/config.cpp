// YAML files. The first line of an input says which: "#sweep" the jobs of a
// sweep, "#device" and "#operators" those of sheaf plan, "#set" overrides of a
// config, one per line; without one of these it is a config.
// parser: sheaf/train/config/config.cpp sheaf/train/config/config_reader.cpp
// parser: sheaf/train/config/arguments.cpp sheaf/train/config/sweep_file.cpp
// parser: sheaf/train/config/sweep_grid.cpp sheaf/formats/texts/yaml_text.cpp
// parser: sheaf/cli/plan/device_file.cpp sheaf/cli/plan/custom_operators.cpp
#include "sheaf/train/config/config.hpp"

#include <string>

#include "sheaf/base/error.hpp"
#include "sheaf/base/text.hpp"
#include "sheaf/cli/plan/plan_files.hpp"
#include "sheaf/train/config/arguments.hpp"
#include "sheaf/train/config/sweep_file.hpp"
#include "tests/fuzz/byte_source.hpp"
#include "tests/fuzz/fuzz_check.hpp"

namespace sheaf {
namespace {

constexpr std::size_t kMostOverrides = 4;

template <class Use>
void attempt(Use use) {
  try {
    use();
  } catch (const Error&) {
  }
}

void read_arguments(const train::Arguments& arguments) {
  attempt([&] {
    train::ArgumentReader reader(arguments, "item");
    reader.has("size");
    reader.wholes("size", {});
    reader.number("p", 0.5);
    reader.whole("padding", 0);
    reader.numbers("mean");
    reader.finish();
  });
}

// What was read is written such that it reads back.
void use(const train::RunConfig& config) {
  const std::string text = train::print_config(config);
  const train::RunConfig again = train::parse_config(text, "again");
  SHEAF_FUZZ_CHECK(train::print_config(again) == text);
  SHEAF_FUZZ_CHECK(train::changes_between(config, again).empty());
  attempt([&] { config.check_ranks(2); });
  for (const train::Item& item : config.data.transforms)
    read_arguments(item.arguments);
}

void read_overrides(const std::string& text) {
  std::vector<std::string> overrides;
  for (const std::string_view line : split(text, '\n'))
    if (overrides.size() < kMostOverrides && !line.starts_with('#'))
      overrides.emplace_back(line);
  use(train::parse_config("{}", "a.yaml", overrides));
}

void read(const std::string& text) {
  if (text.starts_with("#sweep")) {
    for (const auto& job :
         train::make_grid(train::parse_sweep_file(text, "jobs.yaml")))
      job.overrides();
  } else if (text.starts_with("#device")) {
    cli::parse_device(text, "device.yaml");
  } else if (text.starts_with("#operators")) {
    cli::parse_custom_operators(text, "operators.yaml");
  } else if (text.starts_with("#set")) {
    read_overrides(text);
  } else {
    use(train::parse_config(text, "a.yaml"));
  }
}

}  // namespace

SHEAF_FUZZ_TARGET(config) {
  const std::string text(fuzz::text_of(input));
  attempt([&] { read(text); });
}

}  // namespace sheaf

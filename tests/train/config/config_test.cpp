#include "sheaf/train/config/config.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "sheaf/base/error.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::train {
namespace {

using Overrides = std::vector<std::string>;

std::string config_error(const std::string& text, const Overrides& sets = {}) {
  return sheaf::error_of<UsageError>(
      [&] { parse_config(text, "a.yaml", sets); });
}

#define EXPECT_HAS(text, part) \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

const char* const kWhole = R"(
data:
  name: fashion-mnist
  transforms: [to_tensor, normalize: {mean: [0.5], std: 0.25}]
  workers: 2
network:
  name: layers
  layers:
    - flatten
    - linear: {in: 784, out: 10}
optimizer: {name: sgd, learning_rate: 0.05, momentum: 0.9, nesterov: true}
schedule: {name: cosine, warmup_epochs: 0.5}
epochs: 3
global_batch: 128
parallel: {compression: powersgd, bucket_mb: 1.5}
)";

TEST(Config, EmptyGivesDefaults) {
  const RunConfig config = parse_config("", "a.yaml");
  EXPECT_EQ(config.network.name, "lenet");
  EXPECT_EQ(config.optimizer.learning_rate, 0.1);
  EXPECT_EQ(config.parallel.strategy, StrategyKind::kData);
}

TEST(Config, ReadsEveryKindOfValue) {
  const RunConfig config = parse_config(kWhole, "a.yaml");
  ASSERT_EQ(config.data.transforms.size(), 2u);
  const Item& normalize = config.data.transforms[1];
  EXPECT_EQ(normalize.name, "normalize");
  EXPECT_EQ(normalize.arguments.at("mean"), (Argument{{"0.5"}, true}));
  EXPECT_EQ(normalize.arguments.at("std"), (Argument{{"0.25"}, false}));
  EXPECT_EQ(config.network.layers[1].arguments.at("in").values[0], "784");
  EXPECT_TRUE(config.optimizer.nesterov);
  EXPECT_EQ(config.epochs, 3);
  EXPECT_EQ(config.parallel.bucket_mb, 1.5);
}

TEST(Config, APrintedOneReadsBackTheSame) {
  for (const std::string text : {"", kWhole, "output: {folder: \"a: b # c\"}",
                                 "optimizer: {learning_rate: 0.1234567890123}",
                                 "data: {folder: 'null', name: \"~\"}"}) {
    const std::string once = print_config(parse_config(text, "a.yaml"));
    EXPECT_EQ(print_config(parse_config(once, "b.yaml")), once);
  }
  const std::string text = print_config(parse_config(kWhole, "a.yaml"));
  EXPECT_HAS(text, "check_weights_every: 0");
  EXPECT_HAS(text, "on_non_finite: stop");
  EXPECT_HAS(text, "learning_rate: 0.05");
  const RunConfig back = parse_config(text, "b.yaml");
  EXPECT_EQ(back.network.layers, parse_config(kWhole, "a.yaml").network.layers);
}

TEST(Config, RanksMayHaveDevicesOfTheirOwn) {
  const RunConfig one = parse_config("device: cuda\nthreads: 3", "a.yaml");
  EXPECT_EQ(one.device_of(5), "cuda");
  EXPECT_EQ(one.threads_of(5), 3);
  EXPECT_FALSE(one.has_unlike_devices());
  one.check_ranks(7);
  const Overrides sets{"device=[cuda,cpu]", "threads=[2, 13]"};
  const RunConfig two = parse_config("device: cpu", "a.yaml", sets);
  EXPECT_EQ(two.device_of(0), "cuda");
  EXPECT_EQ(two.device_of(1), "cpu");
  EXPECT_EQ(two.threads_of(1), 13);
  EXPECT_TRUE(two.has_unlike_devices());
  two.check_ranks(2);
  const RunConfig back = parse_config(print_config(two), "b.yaml");
  EXPECT_EQ(back.devices, two.devices);
  EXPECT_EQ(back.threads, two.threads);
}

TEST(Config, InvalidDevicesAreErrors) {
  EXPECT_HAS(config_error("device: [cuda, cup]"), "did you mean 'cpu'?");
  EXPECT_HAS(config_error("device: []"), "device is an empty list");
  EXPECT_HAS(config_error("device: [[cpu]]"), "device is a list");
  EXPECT_HAS(config_error("threads: [1, -1]"), "from 0 to 4096");
  EXPECT_HAS(config_error("device: [cuda, cpu]\nparallel: {strategy: dad}"),
             "device is [cuda, cpu], but parallel.strategy dad requires");
  EXPECT_HAS(config_error("device: [cuda, cpu]\ncheck_weights_every: 5"),
             "a.yaml:2: check_weights_every compares bits");
  EXPECT_HAS(config_error("shares: [0, 0]"), "shares are all 0");
  EXPECT_HAS(config_error("shares: [1, 2]\ndata: {sites: by_class}"),
             "by_class");
  parse_config("device: [cpu, cpu]\nparallel: {strategy: dad}", "a.yaml");
  const RunConfig two = parse_config("epochs: 1\ndevice: [cpu, cpu]", "a.yaml");
  EXPECT_HAS(sheaf::error_of<UsageError>([&] { two.check_ranks(3); }),
             "a.yaml:2: device lists 2 ranks, but there are 3");
}

TEST(Config, AWordIsTheNameOfASection) {
  const RunConfig config =
      parse_config("network: mlp\noptimizer: adamw\n", "a.yaml");
  EXPECT_EQ(config.network.name, "mlp");
  EXPECT_EQ(config.optimizer.name, "adamw");
}

TEST(Config, UnknownKeysAreErrorsWithLineAndNearestKey) {
  std::string error = config_error("epochs: 2\nglobal_bach: 3\n");
  EXPECT_HAS(error, "a.yaml:2: ");
  EXPECT_HAS(error, "did you mean 'global_batch'?");
  error = config_error("optimizer:\n  name: sgd\n  learning_rat: 1\n");
  EXPECT_HAS(error, "a.yaml:3: unknown key 'optimizer.learning_rat'");
  EXPECT_HAS(error, "did you mean 'learning_rate'?");
  EXPECT_HAS(config_error("zzz: 1"), "the keys are data, network");
}

TEST(Config, WrongTypesAreErrors) {
  EXPECT_HAS(config_error("\nepochs: two\n"), "a.yaml:2: epochs is 'two'");
  EXPECT_HAS(config_error("epochs: 1.5"), "whole number");
  EXPECT_HAS(config_error("epochs: [1]"), "epochs is a list");
  EXPECT_HAS(config_error("epochs:"), "epochs is empty");
  EXPECT_HAS(config_error("accumulate: 3000000000"), "whole number");
  EXPECT_HAS(config_error("clip_norm: much"), "a number");
  EXPECT_HAS(config_error("clip_norm: nan"), "a number");
  EXPECT_HAS(config_error("output: {trace: maybe}"), "true or false");
  EXPECT_HAS(config_error("data: {transforms: crop}"), "must be a list");
  EXPECT_HAS(config_error("data: {transforms: [{a: 1, b: 2}]}"), "an entry of");
  EXPECT_HAS(config_error("data: {transforms: [crop: 3]}"), "{a: 1}");
  EXPECT_HAS(config_error("output: [1]"), "must be a mapping");
  EXPECT_HAS(config_error("- 1"), "the file is a list");
  EXPECT_HAS(config_error("just text"), "the file is 'just text'");
}

TEST(Config, InvalidValuesAreErrors) {
  EXPECT_HAS(config_error("epochs: 0"), "from 1 to 1000000000");
  EXPECT_HAS(config_error("optimizer: {learning_rate: 0}"), "above 0");
  EXPECT_HAS(config_error("optimizer: {learning_rate: -1}"), "above 0");
  EXPECT_HAS(config_error("data: {workers: 65}"), "from 0 to 64");
  EXPECT_HAS(config_error("optimizer: sgdd"), "did you mean 'sgd'?");
  EXPECT_HAS(config_error("precision: f33"), "f32, f64, bf16");
  EXPECT_HAS(config_error("optimizer: {name: sgd,\n  nesterov: true}"),
             "a.yaml:2: optimizer.nesterov requires momentum");
  EXPECT_HAS(config_error("optimizer: {name: adam, momentum: 0.9}"), "beta1");
  const std::vector<std::string> sets{"optimizer=adam"};
  EXPECT_EQ(parse_config("optimizer: {momentum: 0.9}", "a.yaml", sets)
                .optimizer.momentum,
            0);
  EXPECT_HAS(config_error("optimizer: {name: adam, beta2: 1}"), "below 1");
  EXPECT_HAS(config_error("accumulate: 65"), "a.yaml:1: accumulate is 65");
  EXPECT_HAS(config_error("schedule: {warmup_epochs: 2}"),
             "more than the run's");
  EXPECT_HAS(config_error("network: {name: layers}"), "0 entries");
  EXPECT_HAS(config_error("network: {name: lenet, layers: [relu]}"),
             "1 entries");
  EXPECT_HAS(config_error("loss: mse\nearly_stopping: {metric: f1}"),
             "classes");
}

TEST(Config, InvalidYamlAndDuplicateKeysAreErrors) {
  EXPECT_HAS(config_error("epochs: 1\n  x: ["), "a.yaml:2: invalid YAML");
  EXPECT_HAS(config_error("epochs: 1\nepochs: 2\n"),
             "a.yaml:2: epochs is given");
  EXPECT_HAS(config_error("network: {arguments: {a: 1, a: 2}}"), "twice");
}

TEST(Config, RefusesWhatNoConfigHolds) {
  EXPECT_HAS(config_error("epochs: 1\n---\nepochs: 2\n"),
             "a.yaml:2: a second document");
  EXPECT_HAS(config_error("data: &x {arguments: {a: *x}}"), "contains itself");
  EXPECT_HAS(config_error("clip_norm: \"1\\0junk\""), "not text");
  EXPECT_HAS(config_error("epochs: 1\nseed: \xff"),
             "a.yaml:2: the byte \\xff is not text");
  EXPECT_HAS(config_error(std::string(100'000, '[')), "nested deeper");
  EXPECT_HAS(config_error("epochs: 9223372036854775807"),
             "from 1 to 1000000000");
  EXPECT_HAS(config_error("clip_norm: 1e999"), "must be a number");
  EXPECT_HAS(config_error("epochs: " + std::string(1000, '9')), "999...'");
  EXPECT_HAS(config_error("", {"a" + std::string(100'000, '.') + "b=1"}),
             "more than 8 parts");
  EXPECT_HAS(config_error("", {"epochs=1\n---\n2"}), "second document");
}

// Words that YAML reads as an empty value.
TEST(Config, EmptyWordsArePrintedInQuotes) {
  for (const std::string& word :
       {"~", "null", "Null", "NULL", "", "true", "1e3", "a: b", "# c", "- d",
        "[", "*e", "&f", "!g", "%h", "@i", "`j", "'", "\\"}) {
    RunConfig config;
    config.output.folder = word;
    EXPECT_EQ(parse_config(print_config(config), "p", {}).output.folder, word);
  }
}

TEST(Config, OverridesGoBeforeTheFile) {
  const Overrides sets{"optimizer.learning_rate=0.5", "network=mlp",
                       "data.transforms=[to_tensor]", "output.folder=x y"};
  const RunConfig config = parse_config(kWhole, "a.yaml", sets);
  EXPECT_EQ(config.optimizer.learning_rate, 0.5);
  EXPECT_EQ(config.optimizer.momentum, 0.9);
  EXPECT_EQ(config.network.name, "mlp");
  EXPECT_TRUE(config.network.layers.empty());
  EXPECT_EQ(config.data.transforms.size(), 1u);
  EXPECT_EQ(config.output.folder, "x y");
}

TEST(Config, ASectionSetAsAWholeReplacesTheFiles) {
  const RunConfig config =
      parse_config(kWhole, "a.yaml", Overrides{"optimizer=adam"});
  EXPECT_EQ(config.optimizer.name, "adam");
  EXPECT_EQ(config.optimizer.momentum, 0);
  EXPECT_EQ(config.schedule.name, "cosine");
}

TEST(Config, EverySectionCanBeReplaced) {
  const std::string text =
      "dad: {rank: 3, tolerance: 0.5, routes: {a: dad, b: edad}}\n"
      "parallel: {strategy: dad}\n";
  const auto dad_with = [&](const std::string& set) {
    return parse_config(text, "a.yaml", Overrides{set}).dad;
  };
  EXPECT_EQ(dad_with("dad={rank: 4}").rank, 4);
  EXPECT_EQ(dad_with("dad={rank: 4}").tolerance, DadConfig().tolerance);
  EXPECT_TRUE(dad_with("dad={rank: 4}").routes.empty());
  EXPECT_EQ(dad_with("dad.routes={a: gradient}").routes.size(), 1u);
  EXPECT_EQ(dad_with("dad.routes={a: gradient}").rank, 3);
  EXPECT_EQ(dad_with("dad.routes.a=gradient").routes.size(), 2u);
}

// Names of earlier versions.
TEST(Config, BritishSpellingsAreAliases) {
  const std::string old =
      "data: {transforms: [normalise: {mean: [0.5], std: [1]}],\n"
      "       evaluation_transforms: [centre_crop: {size: 4}]}\n"
      "pretraining: {normalise_filters: false}\n";
  const RunConfig config = parse_config(old, "a.yaml", {});
  EXPECT_EQ(config.data.transforms[0].name, "normalize");
  EXPECT_EQ(config.data.evaluation_transforms[0].name, "center_crop");
  EXPECT_FALSE(config.pretraining.normalize_filters);
  const std::string text = print_config(config);
  EXPECT_HAS(text, "normalize_filters: false");
  EXPECT_EQ(text.find("normalise"), std::string::npos);
  EXPECT_EQ(text.find("centre"), std::string::npos);
  EXPECT_TRUE(parse_config("", "a.yaml",
                           Overrides{"pretraining.normalise_filters=true"})
                  .pretraining.normalize_filters);
  EXPECT_HAS(config_error("pretraining: {normalise_filters: true, "
                          "normalize_filters: true}"),
             "given twice");
}

TEST(Config, OneArgumentLeavesTheOthers) {
  const std::string text =
      "network: {name: mlp, arguments: {sizes: [4, 2], dropout: 0.1}}";
  const auto arguments_with = [&](const std::string& set) {
    return parse_config(text, "a.yaml", Overrides{set}).network.arguments;
  };
  const auto one = arguments_with("network.arguments.dropout=0");
  EXPECT_EQ(one.at("dropout").values, std::vector<std::string>{"0"});
  EXPECT_EQ(one.at("sizes").values.size(), 2u);
  EXPECT_EQ(arguments_with("network.arguments={dropout: 0}").size(), 1u);
}

TEST(Config, InvalidOverridesAreErrors) {
  EXPECT_HAS(config_error("", {"epochs"}), "write key=value");
  EXPECT_HAS(config_error("", {"epoch=3"}),
             "--set epoch=3: unknown key 'epoch'; did you mean 'epochs'?");
  EXPECT_HAS(config_error("", {"optimizer.lr=3"}),
             "unknown key 'optimizer.lr'");
  EXPECT_HAS(config_error("", {"epochs=x"}), "--set epochs=x: epochs is 'x'");
  EXPECT_HAS(config_error("", {"epochs=[1"}), "invalid YAML");
  EXPECT_HAS(config_error("", {"=3"}), "write key=value");
}

// A file without keys differs from {}.
TEST(Config, AFileWithoutKeysIsAMistake) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "a.yaml";
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("# nothing\n")}) {
    std::ofstream(file, std::ios::binary) << text;
    expect_throws<UsageError>([&] { read_config(file); },
                              {file.string(), "empty"});
  }
  std::ofstream(file) << "{}";
  EXPECT_EQ(read_config(file).epochs, 1);
}

TEST(Config, AnUnreadableFileIsAnIoError) {
  const TemporaryFolder folder;
  EXPECT_THROW(read_config(folder.path() / "none.yaml"), IoError);
  EXPECT_THROW(read_config(folder.path()), IoError);
  std::ofstream(folder.path() / "a.yaml") << "epochs: 7\n";
  EXPECT_EQ(read_config(folder.path() / "a.yaml").epochs, 7);
}

}  // namespace
}  // namespace sheaf::train

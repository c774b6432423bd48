#pragma once
// The config of a run, as read from YAML by `sheaf train`. A plain struct
// without libtorch; docs/reference/config.md documents every key.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sheaf/train/config/strategy_kind.hpp"

namespace sheaf::train {

// The value of an item's argument, as text: one value or a list.
struct Argument {
  std::vector<std::string> values;
  bool is_list = false;
  bool operator==(const Argument&) const = default;
};
using Arguments = std::map<std::string, Argument>;

// A layer or transform: "relu", or "linear: {in: 784, out: 10}".
struct Item {
  std::string name;
  Arguments arguments;
  bool operator==(const Item&) const = default;
};

struct DataConfig {
  std::string name = "fashion-mnist";
  std::string folder;            // empty: the folder used by `sheaf data get`
  std::vector<Item> transforms;  // applied to training samples
  // Applied to validation and test samples; empty: `transforms` without its
  // random ones.
  std::vector<Item> evaluation_transforms;
  std::int64_t validation = 0;  // samples held out from the training set's end
  std::int64_t limit = 0;  // maximum number of training samples; 0: no limit
  std::string sites = "shared";  // or by_class: each rank has its own classes
  int workers = 1;      // loader threads; 0: load in the calling thread
  Arguments arguments;  // for synthetic data only
};

struct NetworkConfig {
  std::string name = "lenet";  // "layers": built from `layers`
  Arguments arguments;
  std::vector<Item> layers;
};

struct OptimizerConfig {
  std::string name = "sgd";
  double learning_rate = 0.1;
  double weight_decay = 0;
  double momentum = 0;  // sgd
  bool nesterov = false;
  double beta1 = 0.9;  // adam, adamw
  double beta2 = 0.999;
  double epsilon = 1e-8;
};

struct ScheduleConfig {
  std::string name = "constant";
  double every = 1;         // step: number of epochs between drops
  double factor = 0.1;      // step: the rate is multiplied by this at each drop
  double final_factor = 0;  // cosine: final rate, as a fraction
  double warmup_epochs = 0;  // linear warm-up before any schedule
  double warmup_factor = 0;  // rate at the start of warm-up, as a fraction
};

struct ParallelConfig {
  StrategyKind strategy = StrategyKind::kData;
  std::string grid = "1x1";  // spatial: grid of ranks over the image axes
  double bucket_mb = 25;
  std::string compression = "none";
  int powersgd_rank = 2;
  bool sync_batchnorm = false;
  bool find_unused = false;
};

// Options of the strategies that exchange factors; see docs/explanation/dad.md.
struct DadConfig {
  std::string where = "all_gather";
  bool two_way = false;
  int rank = 4;
  double tolerance = 0;
  int feedback_rows = 16;
  int power_iterations = 0;
  bool low_rank = false;  // auto may choose rank-dad
  bool trials = true;     // auto measures candidate plans in the first steps
  std::string plan;       // auto reuses this dad_plan.json; empty: auto decides
  std::string wire = "none";
  std::string zeros = "auto";
  std::string first_layer = "factors";
  Arguments routes;         // route by parameter name
  bool log_layers = false;  // log a row with per-layer data for each step
};

// Stage-wise pre-training of networks that have stages; see
// docs/explanation/pretraining.md.
struct PretrainingConfig {
  std::int64_t epochs = 0;  // per stage; 0: no pre-training
  double learning_rate = 0.5;
  double sparsity = 0.005;
  std::string cost = "scaled";
  double gain = 0.5;   // gain of the decoder; ignored if cost is plain
  bool center = true;  // subtract the mean image; ignored if cost is plain
  std::string update = "summed";
  std::int64_t classifier_epochs = 0;  // first epochs: classifier only
  bool normalize_filters = true;  // also after each step of the main training
};

struct OutputConfig {
  std::string folder;            // empty: runs/<name of the config>-<number>
  std::int64_t log_every = 100;  // steps between log lines
  bool trace = false;
  bool tensorboard = true;
  std::int64_t checkpoint_every = 0;  // in steps; 0: after each epoch only
  int keep = 2;                       // number of latest checkpoints to keep
  // Which ranks write checkpoints: one (rank 0), ranks (each writes a shard),
  // or auto: ranks if images are split over ranks, else one.
  std::string shards = "auto";
};

struct EarlyStoppingConfig {
  std::string metric = "loss";  // also selects the best checkpoint
  int patience = 0;             // epochs without improvement; 0: disabled
  double min_change = 0;
};

struct RunConfig {
  DataConfig data;
  NetworkConfig network;
  std::string loss = "cross_entropy";
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  std::int64_t epochs = 1;
  std::int64_t global_batch = 64;  // rows per step, over all ranks
  // Relative share of the global batch per rank; one number: equal shares.
  std::vector<std::int64_t> shares{1};
  int accumulate = 1;    // number of pieces a rank splits its share into
  double clip_norm = 0;  // 0: no clipping
  // Reaction to a non-finite loss or gradient: stop the run, skip the step, or
  // ignore it.
  std::string on_non_finite = "stop";
  std::int64_t seed = 0;
  std::string precision = "f32";
  std::string plan;  // file with per-layer precisions; empty: none
  // One device for all ranks, or one per rank.
  std::vector<std::string> devices{"cpu"};
  std::vector<std::int64_t> threads{0};  // 0: cores of the host / its ranks
  ParallelConfig parallel;
  DadConfig dad;
  PretrainingConfig pretraining;
  OutputConfig output;
  EarlyStoppingConfig early_stopping;
  std::int64_t check_weights_every = 0;  // in steps; 0: never

  const std::string& device_of(int rank) const {
    return devices.size() == 1 ? devices[0]
                               : devices.at(static_cast<std::size_t>(rank));
  }
  std::int64_t threads_of(int rank) const {
    return threads.size() == 1 ? threads[0]
                               : threads.at(static_cast<std::size_t>(rank));
  }
  bool has_unlike_devices() const;
  // Throws UsageError if a per-rank list has neither one entry nor `ranks`.
  void check_ranks(int ranks) const;

  // Where each key was set, as a prefix of messages: "a.yaml:7: " or
  // "--set a=b: ". Not printed.
  std::map<std::string, std::string> origins;
  // Prefix for error messages about `key`, such as "a.yaml:7: ". Falls back to
  // the nearest enclosing section whose origin is known; empty if there is
  // none.
  std::string where(const std::string& key) const;
};

// Reads a config file and applies the overrides in order. An override
// "a.b=value" replaces one value, "a=value" the whole section. Throws
// UsageError with the file, line and nearest valid key if the config is
// invalid, IoError if the file cannot be read.
RunConfig read_config(const std::filesystem::path& file,
                      std::span<const std::string> overrides = {});
// Parses a config from `text`; `name` stands for the file in error messages.
RunConfig parse_config(const std::string& text, const std::string& name,
                       std::span<const std::string> overrides = {});

// Prints the complete config, including defaults, as YAML. Parsing the result
// yields the same config.
std::string print_config(const RunConfig& config);

// A key whose value differs between two configs; values are text.
struct ConfigChange {
  std::string key;
  std::string before;
  std::string after;
  bool changes_result = true;
};
// All differing keys, in config order. kResumableKeys lists the keys that do
// not change the result.
std::vector<ConfigChange> changes_between(const RunConfig& before,
                                          const RunConfig& after);

}  // namespace sheaf::train

#pragma once
// The description of a run: what `sheaf train` reads from YAML. A plain struct
// without libtorch; docs/train.md lists every key.

#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sheaf::train {

// What a key of an item holds, as text: one value or a list of them.
struct Argument {
  std::vector<std::string> values;
  bool is_list = false;
  bool operator==(const Argument&) const = default;
};
using Arguments = std::map<std::string, Argument>;

// A layer or a transform: "relu", or "linear: {in: 784, out: 10}".
struct Item {
  std::string name;
  Arguments arguments;
  bool operator==(const Item&) const = default;
};

struct DataConfig {
  std::string name = "fashion-mnist";
  std::string folder;            // empty: where `sheaf data get` puts it
  std::vector<Item> transforms;  // of the samples that are trained on
  // Of those that are tested; empty: those above that draw no lots.
  std::vector<Item> evaluation_transforms;
  std::int64_t validation = 0;   // samples at the end of the training set
  std::int64_t limit = 0;        // trains on so many samples; 0: on all
  std::string sites = "shared";  // or by_class: ranks have classes of their own
  int workers = 1;               // threads that load; 0: none of its own
  Arguments arguments;           // of synthetic data
};

struct NetworkConfig {
  std::string name = "lenet";  // "layers": made of `layers`
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
  double every = 1;          // step: epochs from one drop to the next
  double factor = 0.1;       // step: the rate is multiplied by it
  double final_factor = 0;   // cosine: where it ends, as part of the rate
  double warmup_epochs = 0;  // linear, in front of any schedule
  double warmup_factor = 0;  // where the warm-up begins
};

struct ParallelConfig {
  std::string strategy = "data";
  std::string grid = "1x1";  // of ranks, over the axes of images: spatial
  double bucket_mb = 25;
  std::string compression = "none";
  int powersgd_rank = 2;
  bool sync_batchnorm = false;
  bool find_unused = false;
};

// Of strategies that exchange factors: docs/dad.md.
struct DadConfig {
  std::string where = "all_gather";
  bool two_way = false;
  int rank = 4;
  double tolerance = 0;
  int feedback_rows = 16;
  int power_iterations = 0;
  bool low_rank = false;  // auto may choose it
  bool trials = true;     // auto measures plans in the first steps
  std::string plan;       // auto repeats this dad_plan.json; empty: it decides
  std::string wire = "none";
  std::string zeros = "auto";
  std::string first_layer = "factors";
  Arguments routes;         // by name of the parameter
  bool log_layers = false;  // a row for the layers of each step
};

// Of networks in stages, before and at the start of training: docs/train.md.
struct PretrainingConfig {
  std::int64_t epochs = 0;  // of each stage; 0: no pre-training
  double learning_rate = 0.5;
  double sparsity = 0.005;
  std::string cost = "scaled";
  double gain = 0.5;   // of the decoder; of no effect on a plain cost
  bool center = true;  // less the mean image; of no effect on a plain cost
  std::string update = "summed";
  std::int64_t classifier_epochs = 0;  // of the run's epochs, the first ones
  bool normalise_filters = true;       // after the run's own steps, too
};

struct OutputConfig {
  std::string folder;            // empty: runs/<name of the config>-<number>
  std::int64_t log_every = 100;  // steps between lines
  bool trace = false;
  bool tensorboard = true;
  std::int64_t checkpoint_every = 0;  // steps; 0: after each epoch
  int keep = 2;                       // so many latest checkpoints stay
  // Who writes checkpoints: one, ranks (each a shard), or auto: ranks where
  // images are cut over them.
  std::string shards = "auto";
};

struct EarlyStoppingConfig {
  std::string metric = "loss";  // also says which checkpoint is the best
  int patience = 0;             // epochs without improvement; 0: never stop
  double min_change = 0;
};

struct RunConfig {
  DataConfig data;
  NetworkConfig network;
  std::string loss = "cross_entropy";
  OptimizerConfig optimizer;
  ScheduleConfig schedule;
  std::int64_t epochs = 1;
  std::int64_t global_batch = 64;  // rows of one step, over all ranks
  // Parts of a global batch that ranks take; one number: all the same.
  std::vector<std::int64_t> shares{1};
  int accumulate = 1;    // pieces in which a rank takes its share
  double clip_norm = 0;  // 0: no clipping
  // What a loss or gradient that is not finite does: stop the run, skip the
  // step, or nothing (ignore).
  std::string on_non_finite = "stop";
  std::int64_t seed = 0;
  std::string precision = "f32";
  std::string plan;  // file with the precisions of layers; empty: none
  // One for all ranks, or one for each.
  std::vector<std::string> devices{"cpu"};
  std::vector<std::int64_t> threads{0};  // 0: the host's cores / its ranks
  ParallelConfig parallel;
  DadConfig dad;
  PretrainingConfig pretraining;
  OutputConfig output;
  EarlyStoppingConfig early_stopping;
  std::int64_t check_weights_every = 0;  // steps; 0: never

  const std::string& device_of(int rank) const {
    return devices.size() == 1 ? devices[0]
                               : devices.at(static_cast<std::size_t>(rank));
  }
  std::int64_t threads_of(int rank) const {
    return threads.size() == 1 ? threads[0]
                               : threads.at(static_cast<std::size_t>(rank));
  }
  bool has_unlike_devices() const;
  // UsageError where a list has not one entry for each of so many ranks.
  void check_ranks(int ranks) const;

  // Where each key was given: "a.yaml:7" or "--set". Not printed.
  std::map<std::string, std::string> origins;
  // "a.yaml:7: " for an error message, the nearest that is known.
  std::string where(const std::string& key) const;
};

// Reads the file; each override is "a.b=value" and goes before it; "a=value"
// replaces the whole section. UsageError names file, line and the nearest valid
// key; IoError when it is unreadable.
RunConfig read_config(const std::filesystem::path& file,
                      std::span<const std::string> overrides = {});
// The same for a text, which errors call `name`.
RunConfig parse_config(const std::string& text, const std::string& name,
                       std::span<const std::string> overrides = {});

// The complete description, defaults included, as YAML that reads back to the
// same.
std::string print_config(const RunConfig& config);

// A key with different values in two configs, as text.
struct ConfigChange {
  std::string key;
  std::string before;
  std::string after;
  bool changes_result = true;
};
// In the order of the keys. See kResumableKeys for what changes the result.
std::vector<ConfigChange> changes_between(const RunConfig& before,
                                          const RunConfig& after);

}  // namespace sheaf::train

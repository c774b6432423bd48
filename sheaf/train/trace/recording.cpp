#include "sheaf/train/trace/recording.hpp"

#include <ctime>
#include <ostream>

#include "sheaf/base/error.hpp"
#include "sheaf/base/stopwatch.hpp"
#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/tensor/groups/scope.hpp"
#include "sheaf/tensor/record/kineto.hpp"
#include "sheaf/tensor/record/trace_text.hpp"
#include "sheaf/topo/host.hpp"
#include "sheaf/train/files/from_root.hpp"
#include "sheaf/train/loop/session.hpp"
#include "sheaf/train/trace/recording_report.hpp"

namespace sheaf::train {
namespace {

namespace fs = std::filesystem;

// A plan, even one that changes nothing, adds the scopes of layers.
RunConfig with_layers(RunConfig config) {
  if (config.plan.empty() && config.precision == "f32" &&
      !splits_images(config.parallel.strategy))
    config.plan = "f32";
  return config;
}

void check_curvature(int samples, const RunConfig& config) {
  SHEAF_CHECK(samples >= 0, "--curvature ", samples,
              " is not a number of samples; give 1 or more, or 0 for none");
  SHEAF_CHECK(samples == 0 || !with_layers(config).plan.empty(),
              "--curvature is reported by layer, but a run with precision: ",
              config.precision,
              " and strategy: ", name_of(config.parallel.strategy),
              " does not record its layers; use precision: f32 (with "
              "--precision for the layers) and a strategy other than spatial");
}

void check_recording(const RecordingOptions& options, const RunConfig& config) {
  check_curvature(options.curvature, config);
  const std::string name = options.file.filename().string();
  SHEAF_CHECK(name.ends_with(".json") || name.ends_with(".json.gz"),
              "the name of a trace file must end in .json or .json.gz, but '",
              name, "' does not; use -o trace.json.gz");
  SHEAF_CHECK(options.steps > 0 && options.warmup >= 0, options.steps,
              " steps after a warm-up of ", options.warmup,
              " cannot be recorded; give --steps 1 or more and --warmup 0 or "
              "more");
}

void check_kineto(const comm::Group& group, const RunConfig& config) {
  SHEAF_CHECK(
      config.device_of(group.rank()) == "cpu" || *tensor::why_no_kineto() == 0,
      config.where("device"), "device is cuda for rank ", group.rank(),
      ", but ", tensor::why_no_kineto(), "; set device=cpu");
}

// The precision that all layers share, or "plan".
std::string precision_of(const Learner& learner, const RunConfig& config) {
  const plan::PrecisionPlan* plan = learner.network().plan();
  if (plan == nullptr) return config.precision;
  return plan->layers.empty() ? plan::to_string(plan->other) : "plan";
}

// Runs steps without keeping their results.
class RecordedRun {
 public:
  RecordedRun(const comm::Group& group, const RunConfig& config,
              std::optional<tensor::MemoryWatch>& watch)
      : watch_(watch), session_(group, config), next_(loader().end()) {
    session_.start();
    session_.learner().set_training(true);
  }

  void steps(int count) {
    for (int i = 0; i < count; ++i) step();
  }

  // Reports the curvature for the last step's batch.
  void add_curvature(int samples, Report& layers) {
    report_curvature(session_.learner(), *next_, samples, layers);
  }

  const Learner& learner() const { return session_.learner(); }
  std::int64_t rows() const { return rows_; }  // this rank's rows in a step

 private:
  data::Loader& loader() { return *session_.loaders().train; }

  void step() {
    const tensor::Scope whole(concat("ProfilerStep#", step_));
    {
      const tensor::Scope phase("sheaf::phase data");
      go_on();
    }
    Metrics metrics(0);
    session_.step(*next_, {.step = step_, .applies_always = true}, metrics);
    rows_ = next_->size();
    ++step_;
  }

  // The batch that is released here and the next one were allocated by loader
  // threads, so memory is not counted meanwhile.
  void go_on() {
    std::optional<tensor::MemoryWatch::Pause> pause;
    if (watch_) pause.emplace(*watch_);
    if (!(next_ == loader().end())) ++next_;
    if (next_ == loader().end()) next_ = loader().begin();
  }

  std::optional<tensor::MemoryWatch>& watch_;
  TrainingSession session_;
  data::Loader::Iterator next_;
  std::int64_t step_ = 0;
  std::int64_t rows_ = 0;
};

// On the CPU, Sheaf's recorder records everything. On a GPU, libtorch's Kineto
// records operators, memory and kernels, and Sheaf's recorder collectives.
class Recording {
 public:
  Recording(const comm::Group& group, const RunConfig& config,
            const RecordingOptions& options)
      : group_(group),
        config_(config),
        options_(options),
        file_(file_of_rank(options.file, group.rank(), group.size())) {
    // Started before the first tensor is allocated, so that all of them count.
    if (!is_on_gpu()) watch_.emplace();
    run_.emplace(group, config, watch_);
  }
  ~Recording() {
    std::optional<tensor::MemoryWatch::Pause> pause;
    if (watch_) pause.emplace(*watch_);
    run_.reset();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  void make() {
    run_->steps(is_on_gpu() ? options_.warmup - 1 : options_.warmup);
    is_on_gpu() ? record_on_gpu() : record_steps({});
    if (!watch_) watch_.emplace();
    Report told = describe();
    write(told);
  }

 private:
  const std::string& device_name() const {
    return config_.device_of(group_.rank());
  }
  bool is_on_gpu() const { return device_name() == "cuda"; }
  torch::DeviceType device() const {
    return is_on_gpu() ? torch::kCUDA : torch::kCPU;
  }
  fs::path kineto_file() const { return file_.string() + ".kineto.json"; }

  void record_steps(tensor::RecorderOptions options) {
    options.has_sizes = options_.has_sizes;
    // Kineto takes time to start; no rank may record another rank's start.
    comm::barrier(group_).wait();
    recorder_.emplace(options);
    Stopwatch wall;
    const std::clock_t busy = std::clock();  // CPU time of all threads
    run_->steps(options_.steps);
    busy_cores_ = static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC /
                  (1e-3 * wall.lap());
    recorder_->stop();
  }

  // Kineto is slow in its first step, so one warm-up step runs under it.
  void record_on_gpu() {
    tensor::KinetoRecorder kineto;
    run_->steps(std::min(options_.warmup, 1));
    kineto.start();
    record_steps({.has_operators = false});
    kineto.stop(kineto_file());
  }

  // Describes the model from additional steps, because these take longer.
  Report describe() {
    Report told{{"version", 1},
                {"model", config_.network.name},
                {"batch", run_->rows()},
                {"device", device_name()},
                {"device_name", ""},
                {"precision", precision_of(run_->learner(), config_)},
                {"threads", torch::get_num_threads()},
                {"busy_cores", busy_cores_},
                {"loader_workers", config_.data.workers}};
    const torch::nn::Module& module = run_->learner().module();
    Report nodes, memory;
    {
      const tensor::GraphRecorder graph;
      const tensor::PhasePeaks peaks(*watch_, device());
      run_->steps(1);
      nodes = report_nodes(graph.nodes());
      memory = report_memory(peaks);
    }
    tensor::GraphRecorder graph({.has_statistics = true});
    run_->steps(1);
    const LayerTable layers = graph.take_statistics();
    told["parameters"] = report_parameters(module, layers);
    told["optimizer"] = report_optimizer(run_->learner(), config_);
    told["nodes"] = std::move(nodes);
    told["layers"] = report_layers(module, layers);
    told["memory"] = std::move(memory);
    if (options_.curvature > 0)
      run_->add_curvature(options_.curvature, told["layers"]);
    return told;
  }

  void write(Report& told) {
    if (!is_on_gpu()) {
      const std::string name = topo::processor_name();
      told["device_name"] = name;
      return tensor::write_trace(
          file_, *recorder_, {group_.rank(), group_.size(), name}, told.dump());
    }
    const tensor::KinetoTrace trace(kineto_file());
    told["device_name"] = trace.device_name();
    trace.write(file_, *recorder_, group_.rank(), group_.size(), told.dump());
    fs::remove(kineto_file());
  }

  const comm::Group& group_;
  const RunConfig& config_;
  const RecordingOptions& options_;
  const fs::path file_;
  double busy_cores_ = 1;
  std::optional<tensor::MemoryWatch> watch_;
  std::optional<RecordedRun> run_;
  std::optional<tensor::Recorder> recorder_;
};

}  // namespace

fs::path file_of_rank(const fs::path& file, int rank, int ranks) {
  if (ranks == 1) return file;
  std::string name = file.filename().string();
  name.insert(name.rfind(".json"), concat(".rank", rank));
  return file.parent_path() / name;
}

void record(const comm::Group& group, const RunConfig& config,
            const RecordingOptions& options) {
  from_root(group, [&] {
    check_recording(options, config);
    config.check_ranks(group.size());
    check_kineto(group, config);
    return std::string();
  });
  from_all(group, 0, [&] {
    check_kineto(group, config);
    return std::vector<std::int64_t>{};
  });
  const RunConfig complete = with_layers(config);
  Recording(group, complete, options).make();
  comm::barrier(group).wait();
  if (!options.out) return;
  *options.out << "recorded " << options.steps << " steps in "
               << file_of_rank(options.file, 0, group.size()).string();
  if (group.size() > 1)
    *options.out << " and the files of " << group.size() - 1 << " more ranks";
  *options.out << std::endl;
}

}  // namespace sheaf::train

// sheaf bench cast: measures the time of casts between element types on a
// device, for machine.json.
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>

#include "sheaf/base/error.hpp"
#include "sheaf/base/table.hpp"
#include "sheaf/cli/torch/rank_commands.hpp"
#include "sheaf/plan/graph/type_flow.hpp"
#include "sheaf/plan/predict/cast_cost.hpp"
#include "sheaf/plan/trace/step_trace.hpp"
#include "sheaf/tensor/groups/scope.hpp"
#include "sheaf/tensor/record/kineto.hpp"
#include "sheaf/tensor/record/recorder.hpp"
#include "sheaf/tensor/record/trace_text.hpp"
#include "sheaf/topo/host.hpp"
#include "sheaf/topo/machine.hpp"

namespace sheaf::cli {
namespace {

namespace fs = std::filesystem;
using plan::Precision;

struct CastArguments {
  std::string device = "cpu";
  std::string machine;
  std::string format = "text";
};

// Repeats are interleaved over all sizes and types, so that disturbances affect
// all of them.
constexpr int kRepeats = 9;
constexpr int kWarmUps = 3;
constexpr Precision kTypes[] = {Precision::kF32, Precision::kBf16,
                                Precision::kF16};

at::ScalarType scalar_of(Precision type) {
  return type == Precision::kF32    ? at::kFloat
         : type == Precision::kBf16 ? at::kBFloat16
                                    : at::kHalf;
}

struct OneCast {
  Precision from, to;
  std::int64_t elements;
};

std::vector<OneCast> casts_to_make(bool is_gpu) {
  std::vector<OneCast> list;
  const int first = is_gpu ? 16 : 12, last = is_gpu ? 26 : 23;
  for (int repeat = 0; repeat < kRepeats; ++repeat)
    for (int bits = first; bits <= last; ++bits)
      for (const Precision from : kTypes)
        for (const Precision to : kTypes)
          if (from != to) list.push_back({from, to, std::int64_t{1} << bits});
  return list;
}

void make_casts(const std::vector<OneCast>& casts,
                const torch::Device& device) {
  torch::NoGradGuard no_grad;
  std::map<std::pair<Precision, std::int64_t>, torch::Tensor> inputs;
  for (const OneCast& one : casts)
    inputs.try_emplace(
        {one.from, one.elements},
        torch::ones({one.elements},
                    torch::dtype(scalar_of(one.from)).device(device)));
  const tensor::Scope step("ProfilerStep#0");
  for (const OneCast& one : casts) {
    const tensor::Scope cast("sheaf::cast");
    inputs[{one.from, one.elements}].to(scalar_of(one.to));
  }
}

// A temporary trace file, removed by the destructor.
class ScratchTrace {
 public:
  ScratchTrace()
      : path_(fs::temp_directory_path() /
              fmt::format("sheaf-cast-{}.json", ::getpid())) {}
  ~ScratchTrace() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

plan::Trace record_casts(const std::vector<OneCast>& casts, bool is_gpu) {
  const torch::Device device(is_gpu ? torch::kCUDA : torch::kCPU);
  const ScratchTrace file;
  make_casts(casts, device);
  if (is_gpu) {
    tensor::KinetoRecorder kineto;
    make_casts(casts, device);
    kineto.start();
    make_casts(casts, device);
    kineto.stop(file.path());
  } else {
    tensor::Recorder recorder;
    make_casts(casts, device);
    recorder.stop();
    tensor::write_trace(file.path(), recorder, {0, 1, topo::processor_name()},
                        "{}");
  }
  return plan::read_steps(file.path());
}

// Time of the kernels launched within the span, or the span itself if there
// are none (CPU).
double ns_within(const plan::StepTrace& step, const plan::Span& span) {
  double device = 0;
  for (const plan::TracedCall& call : step.calls) {
    if (call.span.begin_ns < span.begin_ns || call.span.end_ns > span.end_ns)
      continue;
    for (const plan::TracedKernel& kernel : step.kernels)
      if (kernel.correlation == call.correlation)
        device += static_cast<double>(kernel.span.ns());
  }
  return device > 0 ? device : static_cast<double>(span.ns());
}

using Samples =
    std::map<std::pair<Precision, Precision>, std::vector<plan::CastSample>>;

Samples samples_of(const plan::Trace& trace,
                   const std::vector<OneCast>& casts) {
  const plan::StepTrace& step = trace.steps.at(0);
  Samples samples;
  std::size_t next = 0;
  const std::size_t cold = casts.size() / kRepeats * kWarmUps;
  for (const plan::TracedScope& scope : step.scopes) {
    if (trace.names[scope.name] != "sheaf::cast" || next == casts.size())
      continue;
    const OneCast& one = casts[next++];
    if (next > cold)
      samples[{one.from, one.to}].push_back(
          {static_cast<double>(one.elements), ns_within(step, scope.span)});
  }
  return samples;
}

void keep(const std::string& file, const topo::MachineDevice& device) {
  topo::Machine machine;
  if (fs::exists(file)) machine = topo::load_machine(file);
  std::erase_if(machine.devices, [&](const topo::MachineDevice& one) {
    return one.name == device.name && one.kind == device.kind;
  });
  machine.devices.push_back(device);
  topo::save_machine(machine, file);
}

void bench_cast(const CastArguments& arguments) {
  const TableFormat format = parse_table_format(arguments.format);
  SHEAF_CHECK(arguments.device == "cpu" || arguments.device == "cuda",
              "--device is cpu or cuda, not ", arguments.device);
  const bool is_gpu = arguments.device == "cuda";
  SHEAF_CHECK(!is_gpu || torch::cuda::is_available(),
              "libtorch finds no usable GPU; pass --device cpu");
  if (fs::exists(arguments.machine)) topo::load_machine(arguments.machine);
  if (!is_gpu) torch::set_num_threads(1);
  const std::vector<OneCast> casts = casts_to_make(is_gpu);
  const plan::Trace trace = record_casts(casts, is_gpu);
  topo::MachineDevice device;
  device.name = trace.header.device_name;
  device.kind = arguments.device;
  Table table({{.name = "from", .align = Align::kLeft},
               {.name = "to", .align = Align::kLeft},
               {.name = "per element",
                .unit = "ns",
                .key = "ns_per_element",
                .decimals = 5},
               {.name = "start", .unit = "ns", .key = "ns", .decimals = 0},
               {.name = "moved", .unit = "GB/s", .key = "gbs"}});
  for (const auto& [pair, samples] : samples_of(trace, casts)) {
    const plan::CastCost cost = plan::fit_cast(samples);
    device.casts.push_back({plan::to_string(pair.first),
                            plan::to_string(pair.second), cost.ns_per_element,
                            cost.ns});
    table.add_row({plan::to_string(pair.first), plan::to_string(pair.second),
                   cost.ns_per_element, cost.ns,
                   (plan::bytes_of(pair.first) + plan::bytes_of(pair.second)) /
                       cost.ns_per_element});
  }
  if (!arguments.machine.empty()) keep(arguments.machine, device);
  if (format == TableFormat::kText)
    fmt::print("{}, {}\n", device.name, arguments.device);
  table.print(std::cout, format);
}

}  // namespace

void add_cast_command(CLI::App& app) {
  auto arguments = std::make_shared<CastArguments>();
  CLI::App* command = app.add_subcommand("cast", "Measure casts");
  command->add_option("--device", arguments->device);
  command->add_option("--machine", arguments->machine);
  command->add_option("--format", arguments->format);
  command->callback([arguments] { bench_cast(*arguments); });
}

}  // namespace sheaf::cli

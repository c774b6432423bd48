#pragma once
// Traces of a small model under any plan with known costs: the reference for
// predictions from uniform traces.

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "sheaf/base/error.hpp"
#include "sheaf/plan/graph/type_flow.hpp"
#include "tests/plan/trace/trace_text.hpp"

namespace sheaf::plan {

struct ModelOperator {
  std::string op;
  std::string layer;
  std::vector<int> inputs;
  double elements = 0;  // of the result
  double us = 0;        // of the kernel in f32
  bool is_f32_only = false;
};

// Two convolutions with a skip connection around the second, then softmax and a
// product.
inline std::vector<ModelOperator> small_model() {
  return {{"aten::conv2d", "conv1", {}, 1e6, 300},
          {"aten::relu", "", {0}, 1e6, 40},
          {"aten::conv2d", "conv2", {1}, 1e6, 500},
          {"aten::add", "", {1, 2}, 1e6, 60},
          {"aten::softmax", "", {3}, 1e6, 80, true},
          {"aten::linear", "fc", {4}, 1e5, 200}};
}

class ModelTrace {
 public:
  ModelTrace(std::vector<ModelOperator> model, PrecisionPlan plan,
             bool is_uniform, double host_us = 10, int batch = 8,
             double loader_us = 0)
      : model_(std::move(model)),
        plan_(std::move(plan)),
        is_uniform_(is_uniform),
        host_us_(host_us),
        batch_(batch),
        loader_us_(loader_us) {
    flow();
    for (int step = 0; step < 3; ++step) record(step);
  }

  static double cast_us(Precision from, Precision to, double elements) {
    return 1e-5 * (bytes_of(from) + bytes_of(to)) * elements + 2;
  }

  std::filesystem::path write() const {
    const auto path = text_.folder() / "trace.json";
    std::string all = text_.text();
    all.resize(all.rfind('}'));
    std::ofstream(path, std::ios::binary) << all << ", " << model_json() << "}";
    return path;
  }
  // The trace as other tools record it, without a model description.
  std::filesystem::path write_plain() const { return text_.write(); }
  std::int64_t peak_bytes() const { return peak_; }
  double step_us() const { return step_us_; }

 private:
  struct Node {
    std::size_t of = 0;  // index of the operator
    int cast = -1;       // input that is cast
    Precision from = Precision::kF32;
    Precision type = Precision::kF32;
    int sequence = 0;
    std::uint64_t address = 0;
  };

  double low_us(const ModelOperator& one, Precision type) const {
    return type == Precision::kF32 ? one.us : 0.4 * one.us;
  }

  void flow() {
    int sequence = 100;
    std::vector<int> result_node;
    for (std::size_t i = 0; i < model_.size(); ++i) {
      const ModelOperator& one = model_[i];
      Precision type = result_of(plan_.of(one.layer));
      bool is_first = true;
      if (one.layer.empty())
        for (const int from : one.inputs) {
          const Precision given = types_[static_cast<std::size_t>(from)];
          type = is_first || type == given ? given : Precision::kF32;
          is_first = false;
        }
      if (one.is_f32_only) type = Precision::kF32;
      std::vector<int> inputs;
      for (std::size_t k = 0; k < one.inputs.size(); ++k) {
        const auto from = static_cast<std::size_t>(one.inputs[k]);
        inputs.push_back(result_node[from]);
        if ((one.layer.empty() && !one.is_f32_only) || types_[from] == type)
          continue;
        inputs.back() = static_cast<int>(nodes_.size());
        add_node({i, static_cast<int>(k), types_[from], type, sequence++},
                 "aten::to", {result_node[from]}, model_[from].elements);
      }
      result_node.push_back(static_cast<int>(nodes_.size()));
      add_node({i, -1, type, type, sequence++}, one.op, inputs, one.elements);
      types_.push_back(type);
    }
  }
  void add_node(Node node, const std::string& op,
                const std::vector<int>& inputs, double elements) {
    node.address = 1000 + nodes_.size();
    const ModelOperator& one = model_[node.of];
    std::vector<std::string> shapes;
    for (const int input : inputs)
      shapes.push_back(fmt::format(
          "[{}]",
          static_cast<long>(
              model_[nodes_[static_cast<std::size_t>(input)].of].elements)));
    json_nodes_.push_back(fmt::format(
        "{{\"op\": \"{}\", \"layer\": \"{}\", \"inputs\": [{}], \"in\": [{}], "
        "\"out\": [[{}]], \"type\": \"{}\"}}",
        op, one.layer, fmt::join(inputs, ", "), fmt::join(shapes, ", "),
        static_cast<long>(elements), to_string(node.type)));
    nodes_.push_back(node);
  }

  double kernel_us(const Node& node) const {
    const ModelOperator& one = model_[node.of];
    if (node.cast >= 0) return cast_us(node.from, node.type, elements_in(node));
    double us = low_us(one, node.type);
    for (const auto& [given, elements] : meetings(node))
      us += (cast_us(given, node.type, elements) - 2) / 2;
    return us;
  }
  // Inputs of types other than the result's: they slow down the operator in
  // forward, and are cast back to their type in backward.
  std::vector<std::pair<Precision, double>> meetings(const Node& node) const {
    std::vector<std::pair<Precision, double>> list;
    const ModelOperator& one = model_[node.of];
    if (!one.layer.empty() || one.is_f32_only || node.cast >= 0) return list;
    for (const int from : one.inputs) {
      const auto at = static_cast<std::size_t>(from);
      if (types_[at] != node.type)
        list.emplace_back(types_[at], model_[at].elements);
    }
    return list;
  }
  std::vector<double> backward_us(const Node& node) const {
    if (node.cast >= 0)
      return {cast_us(node.type, node.from, elements_in(node))};
    std::vector<double> list{2 * low_us(model_[node.of], node.type)};
    for (const auto& [given, elements] : meetings(node))
      list.push_back(cast_us(node.type, given, elements));
    return list;
  }
  double elements_in(const Node& node) const {
    const auto from =
        model_[node.of].inputs[static_cast<std::size_t>(node.cast)];
    return model_[static_cast<std::size_t>(from)].elements;
  }
  double bytes(const Node& node) const {
    return bytes_of(node.type) *
           (node.cast < 0 ? model_[node.of].elements : elements_in(node));
  }

  // Host operators with one kernel each; backward takes twice as long.
  void operation(const std::string& name, int thread,
                 const std::vector<double>& kernels, int sequence) {
    text_.op(name, thread, now_, host_us_ * static_cast<double>(kernels.size()),
             sequence);
    for (const double kernel : kernels) {
      const double launch = now_ + host_us_ / 2;
      device_ = std::max(device_ + 1, launch + 6);
      text_.kernel(thread, launch, 7, device_, kernel, 4);
      device_ += kernel;
      now_ += host_us_;
    }
    now_ += 2;
  }
  void memory(int thread, std::uint64_t address, double change) {
    bytes_ += static_cast<std::int64_t>(change);
    peak_ = std::max(peak_, bytes_);
    text_.moment("[memory]", thread, now_ + 1,
                 fmt::format("\"Device Type\": 1, \"Addr\": {}, \"Bytes\": {}",
                             address, static_cast<long>(change)));
  }

  void record(int step) {
    const double begin = now_;
    wait_for_batch(step);
    bytes_ = kBefore;
    const double forward = now_;
    for (const Node& node : nodes_) {
      memory(1, node.address, bytes(node));
      operation(node.cast < 0 ? model_[node.of].op : "aten::to", 1,
                {kernel_us(node)}, node.sequence);
    }
    text_.add("user_annotation", "sheaf::phase forward", 1, forward,
              now_ - forward);
    now_ += 20;
    for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
      operation(
          concat("autograd::engine::evaluate_function: Of", node->sequence), 2,
          backward_us(*node), node->sequence);
      if (node->cast < 0 &&
          (model_[node->of].layer == "conv1" || model_[node->of].layer == "fc"))
        text_.op(
            "autograd::engine::evaluate_function: "
            "torch::autograd::AccumulateGrad",
            2, now_ - 1, 0.5);
      now_ -= 2;
      memory(2, node->address, -bytes(*node));
      now_ += 2;
    }
    now_ += 60;
    text_.add("cuda_runtime", "cudaDeviceSynchronize", 1, now_,
              std::max(5.0, device_ - now_ + 5));
    now_ = std::max(now_ + 5, device_ + 5);
    text_.step(step, begin, now_ - begin);
    step_us_ = now_ - begin;
    now_ += 1;
  }

  // Adds a batch every loader_us, prepared during the step before.
  void wait_for_batch(int step) {
    if (loader_us_ == 0) return;
    const double wait = std::max(5.0, (step + 1) * loader_us_ - now_);
    text_.add("user_annotation", "sheaf::phase data", 1, now_, wait);
    now_ += wait + 2;
  }

  std::string model_json() const {
    std::map<std::string, double> last_us;  // shared layers occur repeatedly
    for (const ModelOperator& one : model_)
      if (!one.layer.empty()) last_us[one.layer] = one.us;
    std::string layers;
    for (const auto& [layer, us] : last_us)
      layers += fmt::format(
          "{}\"{}\": {{\"statistics\": {{\"input\": {{\"elements\": 1000, "
          "\"square\": 1000, \"largest\": 4}}, \"weight\": {{\"elements\": "
          "100, \"square\": {}, \"largest\": 1}}, \"output\": "
          "{{\"elements\": "
          "1000}}, \"weight_gradient\": {{\"elements\": 100, \"square\": 1, "
          "\"largest\": 0.5}}, \"output_gradient\": {{\"elements\": 1000, "
          "\"square\": 1, \"largest\": 0.1}}}}}}",
          layers.empty() ? "" : ", ", layer, us);
    return fmt::format(
        "\"sheaf\": {{\"version\": 1, \"model\": \"small\", \"batch\": {}, "
        "\"device\": \"cuda\", \"precision\": \"{}\", \"parameters\": "
        "[{{\"name\": \"conv1.weight\", \"elements\": 1000, \"layer\": "
        "\"conv1\"}}, {{\"name\": \"fc.weight\", \"elements\": 500000, "
        "\"layer\": \"fc\"}}], \"nodes\": [{}], \"layers\": {{{}}}, "
        "\"memory\": {{\"before\": {}}}}}",
        batch_, is_uniform_ ? to_string(plan_.other) : "plan",
        fmt::join(json_nodes_, ", "), layers, kBefore);
  }

  static constexpr std::int64_t kBefore = 5'000'000;
  std::vector<ModelOperator> model_;
  PrecisionPlan plan_;
  bool is_uniform_;
  double host_us_;
  int batch_;
  double loader_us_;  // per batch; 0: no data phase
  TraceText text_;
  std::vector<Precision> types_;  // of results, by operator
  std::vector<Node> nodes_;
  std::vector<std::string> json_nodes_;
  double now_ = 0;
  double device_ = 0;
  std::int64_t bytes_ = 0;
  std::int64_t peak_ = 0;
  double step_us_ = 0;
};

inline PrecisionPlan uniform(Precision precision) {
  PrecisionPlan plan;
  plan.other = precision;
  return plan;
}

}  // namespace sheaf::plan

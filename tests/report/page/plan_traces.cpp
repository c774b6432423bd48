// Writes a trace of a synthetic model of realistic size, for the plan page:
//   plan_traces resnet50 f32 trace.json
//   plan_traces bert plan.json trace.json
#include <fmt/format.h>

#include <filesystem>

#include "sheaf/base/error.hpp"
#include "tests/plan/trace/model_trace.hpp"

namespace {

using namespace sheaf::plan;
using Model = std::vector<ModelOperator>;

int add(Model& model, ModelOperator one) {
  model.push_back(std::move(one));
  return static_cast<int>(model.size()) - 1;
}

int add_conv(Model& model, const std::string& layer, int from, double us,
             bool has_relu = true) {
  const double elements = 2e5;
  std::vector<int> inputs;
  if (from >= 0) inputs.push_back(from);
  int last = add(model, {"aten::conv2d", layer, inputs, elements, us});
  last = add(model, {"aten::batch_norm", "", {last}, elements, us / 6});
  if (!has_relu) return last;
  return add(model, {"aten::relu_", "", {last}, elements, us / 9});
}

Model resnet50() {
  Model model;
  int last = add_conv(model, "conv1", -1, 260);
  last = add(model, {"aten::max_pool2d", "", {last}, 2e5, 60});
  const int blocks[] = {3, 4, 6, 3};
  for (int stage = 0; stage < 4; ++stage)
    for (int i = 0; i < blocks[stage]; ++i) {
      const std::string name = fmt::format("layer{}.{}.", stage + 1, i);
      const int before = last;
      last = add_conv(model, name + "conv1", last, 60 + 10 * stage);
      last = add_conv(model, name + "conv2", last, 120 + 7 * i);
      last = add_conv(model, name + "conv3", last, 70, /*has_relu=*/false);
      const int skip =
          i > 0 ? before
                : add_conv(model, name + "downsample.0", before, 80, false);
      last = add(model, {"aten::add_", "", {last, skip}, 2e5, 20});
      last = add(model, {"aten::relu_", "", {last}, 2e5, 12});
    }
  last = add(model, {"aten::adaptive_avg_pool2d", "", {last}, 2e3, 8});
  last = add(model, {"aten::flatten", "", {last}, 2e3, 1});
  last = add(model, {"aten::linear", "fc", {last}, 1e3, 30});
  add(model, {"aten::cross_entropy_loss", "", {last}, 1, 6, true});
  return model;
}

Model bert() {
  Model model;
  const double size = 4e5;
  int last = add(model, {"aten::embedding", "", {}, size, 30});
  last = add(model, {"aten::layer_norm", "", {last}, size, 20, true});
  int products = 0;
  for (int i = 0; i < 12; ++i) {
    const std::string name = fmt::format("encoder.layer.{}.", i);
    const int before = last;
    const auto linear = [&](const std::string& layer, int from, double us) {
      return add(model, {"aten::linear", name + layer, {from}, size, us});
    };
    const auto plain = [&](const char* op, std::vector<int> from, double us,
                           bool is_f32_only = false) {
      return add(model, {op, "", std::move(from), size, us, is_f32_only});
    };
    const auto heads = [&](const char* layer) {
      const int made =
          linear(std::string("attention.self.") + layer, before, 90);
      return plain("aten::transpose", {plain("aten::view", {made}, 1)}, 6);
    };
    const int query = heads("query"), key = heads("key"),
              value = heads("value");
    const auto product = [&](int a, int b) {
      return add(model, {"aten::matmul",
                         fmt::format("matmul#{}", products++),
                         {a, b},
                         size,
                         70});
    };
    last = plain("aten::div", {product(query, key)}, 10);
    last = plain("aten::softmax", {last}, 40, true);
    last = product(plain("aten::dropout", {last}, 12), value);
    last = plain("aten::reshape", {last}, 8);
    last = linear("attention.output.dense", last, 90);
    last = plain("aten::add", {plain("aten::dropout", {last}, 10), before}, 12);
    const int middle = plain("aten::layer_norm", {last}, 24, true);
    last = linear("intermediate.dense", middle, 330);
    last = plain("aten::gelu", {last}, 40);
    last = linear("output.dense", last, 320);
    last = plain("aten::add", {plain("aten::dropout", {last}, 10), middle}, 12);
    last = plain("aten::layer_norm", {last}, 24, true);
  }
  last = add(model, {"aten::linear", "classifier", {last}, 100, 12});
  add(model, {"aten::cross_entropy_loss", "", {last}, 1, 6, true});
  return model;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string name = argv[1], what = argv[2];
  const bool is_uniform = !what.ends_with(".json");
  const PrecisionPlan plan =
      is_uniform ? uniform(parse_precision(what)) : read_precision_plan(what);
  const ModelTrace trace(name == "bert" ? bert() : resnet50(), plan, is_uniform,
                         /*host_us=*/6);
  std::filesystem::copy_file(trace.write(), argv[3],
                             std::filesystem::copy_options::overwrite_existing);
}

// What profilers and traces observe of a pass under a plan.
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "sheaf/parallel/precision/precision.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/parallel/precision/precision_networks.hpp"

namespace sheaf::parallel {
namespace {

using namespace test;

// Operators reported to observers, preceded by the enclosing operators and "/".
struct Seen {
  std::vector<std::string> names;
  std::vector<std::int64_t> nodes;  // sequence numbers
  std::vector<std::string> around;
};
thread_local Seen* seen = nullptr;
struct OpenOperator : at::ObserverContext {};

std::unique_ptr<at::ObserverContext> see(const at::RecordFunction& call) {
  if (!seen) return nullptr;
  std::string name;
  for (const std::string& one : seen->around) name += one + "/";
  seen->names.push_back(name + call.name());
  seen->nodes.push_back(call.seqNr());
  seen->around.push_back(call.name());
  return std::make_unique<OpenOperator>();
}

void leave(const at::RecordFunction&, at::ObserverContext* context) {
  if (seen && context) seen->around.pop_back();
}

TEST(Precision, ObserversSeeLayersAndTheirCasts) {
  Mlp net;
  const at::Tensor x = torch::randn({3, 12});
  MixedPrecision precision(*net, {{{"second", Precision::kBf16}}});
  Seen operators;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(see, leave));
  seen = &operators;
  at::Tensor output;
  {
    const auto scope = precision.forward_scope();
    output = net->forward(x);
  }
  seen = nullptr;
  at::removeCallback(handle);
  std::vector<std::string> outer;
  std::vector<std::int64_t> nodes;
  for (std::size_t i = 0; i < operators.names.size(); ++i) {
    std::string name = operators.names[i];
    const bool is_in_layer = name.rfind("sheaf::layer", 0) == 0;
    const auto slashes = std::count(name.begin(), name.end(), '/');
    if (slashes > (is_in_layer ? 1 : 0) || name == "aten::t") continue;
    // The operators called by a linear layer depend on libtorch's version.
    const std::size_t linear = name.find("aten::linear");
    if (linear != std::string::npos) name.replace(linear, 12, "aten::addmm");
    outer.push_back(name);
    nodes.push_back(operators.nodes[i]);
  }
  const std::vector<std::string> wanted{"aten::flatten",
                                        "sheaf::layer first f32",
                                        "sheaf::layer first f32/aten::addmm",
                                        "aten::tanh",
                                        "sheaf::layer second bf16",
                                        "sheaf::layer second bf16/aten::to",
                                        "sheaf::layer second bf16/aten::to",
                                        "sheaf::layer second bf16/aten::to",
                                        "sheaf::layer second bf16/aten::addmm",
                                        "aten::relu",
                                        "sheaf::layer last f32",
                                        "sheaf::layer last f32/aten::to",
                                        "sheaf::layer last f32/aten::addmm"};
  EXPECT_EQ(outer, wanted);
  // Needed by traces to assign the nodes of backward() to operators.
  EXPECT_EQ(nodes.back(),
            static_cast<std::int64_t>(output.grad_fn()->sequence_nr()));
}

}  // namespace
}  // namespace sheaf::parallel

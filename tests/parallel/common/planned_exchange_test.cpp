// The messages that a rank sends, compared with those that the planner predicts
// for the same module.

#include <gtest/gtest.h>

#include "sheaf/comm/group/perform.hpp"
#include "sheaf/parallel/common/gradients.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "sheaf/parallel/data/bucket_exchange.hpp"
#include "sheaf/plan/predict/gradient_exchange.hpp"
#include "tests/parallel/common/training.hpp"

namespace sheaf::parallel {
namespace {

using comm::Group;
using comm::run_threads;
using plan::parse_exchange;

constexpr std::int64_t kRows = 16;
constexpr int kPlannedRanks = 3;

// The weight of `a` has 300 KiB, and therefore a bucket of its own.
struct ExchangedNetImpl : torch::nn::Module {
  ExchangedNetImpl() {
    a = register_module("a", torch::nn::Linear(300, 256));
    b = register_module("b", torch::nn::Linear(256, 41));
    c = register_module("c", torch::nn::Linear(41, 10));
  }
  at::Tensor forward(const at::Tensor& x) {
    return c(torch::relu(b(torch::tanh(a(x)))));
  }
  torch::nn::Linear a{nullptr}, b{nullptr}, c{nullptr};
};
TORCH_MODULE(ExchangedNet);

struct SentMessage {
  std::string operation;
  double bytes = 0;
  bool operator==(const SentMessage&) const = default;
};
using SentMessages = std::vector<SentMessage>;

void PrintTo(const SentMessage& message, std::ostream* out) {
  *out << message.operation << " of " << message.bytes << " bytes";
}

SentMessages of_operation(const SentMessages& all, const char* operation) {
  SentMessages list;
  for (const SentMessage& one : all)
    if (one.operation == operation) list.push_back(one);
  return list;
}

thread_local SentMessages* noted = nullptr;

void note_message(const comm::Fingerprint& call, int /*ranks*/) {
  if (noted == nullptr) return;
  noted->push_back({std::string(comm::name_of(call.operation)),
                    static_cast<double>(call.count * size_of(call.dtype))});
}
void note_nothing() {}
constexpr comm::Observer kNotes{note_message, note_nothing};

class PlannedExchange : public testing::Test {
 protected:
  PlannedExchange() { comm::set_observer(&kNotes); }
  ~PlannedExchange() override { comm::set_observer(nullptr); }

  // The messages of this rank's second backward(): in the first, buckets are
  // rebuilt. Without overlap, this thread sends them.
  template <class Model>
  static SentMessages sent(Model& model, const ExchangedNet& net) {
    SentMessages list;
    for (int pass = 0; pass < 2; ++pass) {
      forget_gradients(*net);
      list.clear();
      const at::Tensor loss =
          model.forward(torch::randn({kRows, 300})).square().sum();
      model.reset_stats();
      noted = &list;
      loss.backward();
      noted = nullptr;
    }
    return list;
  }
  static SentMessages sent_by_dad(const Group& group, DadOptions options) {
    ExchangedNet net;
    options.skips_zeros = false;
    options.link = LinkModel{.ranks = group.size()};
    options.average = Average::kRanks;
    options.overlap = Overlap::kOff;
    DadParallel model(net, group, options);
    return sent(model, net);
  }

  // The trace of a step of the module, without times.
  static void describe(plan::StepProfile& profile) {
    const ExchangedNet net;
    for (const auto& item : net->named_parameters())
      profile.model.parameters.push_back(
          {item.key(), item.value().numel(), item.key().substr(0, 1)});
    const auto linear = [](const char* layer, std::int64_t in,
                           std::int64_t out) {
      plan::Slot slot;
      slot.op = "aten::linear";
      slot.layer = layer;
      slot.out_shape = {kRows, out};
      slot.weight_elements = static_cast<double>(in * out);
      return slot;
    };
    auto& slots = profile.graph.slots;
    slots = {linear("a", 300, 256),
             {},
             linear("b", 256, 41),
             {},
             linear("c", 41, 10)};
    slots[1].op = "aten::tanh";
    slots[3].op = "aten::relu";
    for (std::int32_t i = 0; i < 5; ++i) {
      if (i > 0) slots[static_cast<std::size_t>(i)].inputs = {{i - 1}};
      profile.parts.push_back(
          {i, /*is_backward=*/true, plan::kNone, i % 2 == 0 ? 2 : 0});
    }
  }
  static SentMessages predicted(const std::string& ways, int hosts = 1) {
    plan::StepProfile profile;
    describe(profile);
    plan::StepGraph step;
    step.threads.resize(1);
    for (const std::int32_t side : {0, 2, 4, 6, 8, 9, 7, 5, 3, 1}) {
      step.threads[0].emplace_back();
      step.threads[0].back().part = side;
    }
    plan::ExchangeOptions options;
    options.routes = parse_exchange(ways);
    options.workers = kPlannedRanks;
    options.hosts = hosts;
    const auto with = plan::with_exchange(step, profile, options);
    const auto bytes = plan::collective_bytes(with);
    SentMessages list;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      list.push_back({with.collectives[i].name, bytes[i]});
    return list;
  }
};

TEST_F(PlannedExchange, OfGradients) {
  run_threads(kPlannedRanks, [](const Group& group) {
    ExchangedNet net;
    DataParallel model(net, group, {.overlap = Overlap::kOff});
    const SentMessages messages = sent(model, net);
    EXPECT_EQ(messages, predicted("gradients"));
    double bytes = 0;
    for (const SentMessage& one : messages) bytes += one.bytes;
    EXPECT_EQ(static_cast<double>(model.stats().bytes), bytes);
  });
}

TEST_F(PlannedExchange, OfGradientsInSixteenBits) {
  const auto total = [](const SentMessages& messages) {
    double bytes = 0;
    for (const SentMessage& one : messages) bytes += one.bytes;
    return bytes;
  };
  for (const bool is_one_host : {true, false}) {
    const std::vector<std::string> hosts{"x", is_one_host ? "x" : "y", "x"};
    run_threads(hosts, [&](const Group& group) {
      ExchangedNet net;
      DataParallel model(net, group,
                         {.overlap = Overlap::kOff,
                          .exchange = make_half_exchange(at::kHalf)});
      // The buffers are the same with any number of hosts, the traffic is not.
      EXPECT_EQ(sent(model, net), predicted("half"));
      EXPECT_EQ(static_cast<double>(model.stats().bytes),
                total(predicted("half", group.host_count())));
    });
  }
}

TEST_F(PlannedExchange, OfFactors) {
  run_threads(kPlannedRanks, [](const Group& group) {
    EXPECT_EQ(sent_by_dad(group, {.mode = DadMode::kDad}), predicted("dad"));
    EXPECT_EQ(sent_by_dad(group, {.mode = DadMode::kEdad}), predicted("edad"));
    EXPECT_EQ(sent_by_dad(group, {.mode = DadMode::kRankDad, .rank = 2}),
              predicted("rank-dad:2"));
    // No more rows than there are, and 10 for the 10 outputs of the last layer.
    EXPECT_EQ(sent_by_dad(group, {.mode = DadMode::kRankDad, .rank = 20}),
              predicted("rank-dad:20"));
    EXPECT_EQ(sent_by_dad(group, {.mode = DadMode::kRankDad, .rank = 12}),
              predicted("rank-dad:12"));
  });
}

// The parcels and buckets are those of the run. The small messages that stand
// for the cost of two exchanges in one pass follow the buckets.
TEST_F(PlannedExchange, OfFactorsAndGradients) {
  run_threads(kPlannedRanks, [](const Group& group) {
    const SentMessages messages = sent_by_dad(
        group,
        {.mode = DadMode::kEdad, .planned = {{"a.weight", Route::kGradient}}});
    const SentMessages expected = predicted("edad,a=gradients");
    EXPECT_EQ(of_operation(messages, "all_gather"),
              of_operation(expected, "all_gather"));
    SentMessages reduced = of_operation(expected, "all_reduce");
    ASSERT_GE(reduced.size(), 2u + plan::kMixedPassMessages);
    reduced.resize(reduced.size() - plan::kMixedPassMessages);
    EXPECT_EQ(of_operation(messages, "all_reduce"), reduced);
  });
}

}  // namespace
}  // namespace sheaf::parallel

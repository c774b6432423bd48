#include "sheaf/parallel/common/strategy.hpp"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <stdexcept>

namespace sheaf::parallel {
namespace {

using comm::Group;

// Records its calls.
class RecordingStrategy : public Strategy {
 public:
  void before_forward() override { calls.emplace_back("before"); }
  void after_forward(const std::vector<at::Tensor*>& outputs) override {
    calls.push_back("after " + std::to_string(outputs.size()));
    for (at::Tensor* one : outputs) *one = *one + 1;
  }
  void check_weights() const override {}
  ExchangeStats stats() const override { return {}; }
  void reset_stats() override {}
  const Group& group() const override { return group_; }
  bool is_on() const { return is_syncing(); }

  std::vector<std::string> calls;

 protected:
  bool is_syncing() const override { return is_syncing_; }
  void set_sync(bool is_on) override { is_syncing_ = is_on; }
  void end_forward() override { calls.emplace_back("end"); }

 private:
  Group group_;
  bool is_syncing_ = true;
};

TEST(Strategy, AForwardPassMayReplaceItsOutputs) {
  RecordingStrategy model;
  const auto output = model.run_forward([&] {
    model.calls.emplace_back("body");
    return std::tuple(torch::zeros({1}), 7, std::vector{torch::ones({1})});
  });
  EXPECT_EQ(model.calls,
            (std::vector<std::string>{"before", "body", "after 2", "end"}));
  EXPECT_EQ(std::get<0>(output).item<float>(), 1);
  EXPECT_EQ(std::get<2>(output)[0].item<float>(), 2);
}

TEST(Strategy, AForwardPassEndsAlsoIfItThrows) {
  RecordingStrategy model;
  const auto body = []() -> at::Tensor { throw std::runtime_error("asked"); };
  EXPECT_THROW(model.run_forward(body), std::runtime_error);
  EXPECT_EQ(model.calls, (std::vector<std::string>{"before", "end"}));
}

TEST(Strategy, GuardsMayBeNested) {
  RecordingStrategy model;
  {
    const auto outer = model.no_sync();
    EXPECT_FALSE(model.is_on());
    { const auto inner = model.no_sync(); }
    EXPECT_FALSE(model.is_on());
  }
  EXPECT_TRUE(model.is_on());
}

TEST(Strategy, ByDefaultThereIsNoState) {
  RecordingStrategy model;
  EXPECT_TRUE(model.gather_state().empty());
  model.load_state({{"a", torch::ones({1})}});
  model.share_buffers();
}

}  // namespace
}  // namespace sheaf::parallel

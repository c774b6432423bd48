#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "sheaf/parallel/common/backward_pass.hpp"

// The calls that a pass makes to its sinks.
namespace sheaf::parallel {
namespace {

class RecordingSink : public GradientSink {
 public:
  RecordingSink(std::string name, std::vector<std::string>& calls)
      : name_(std::move(name)), calls_(calls) {}
  void begin_pass(std::optional<std::size_t> /*first*/) override {
    note("begin");
  }
  void add(const NewGradient& gradient) override {
    note("add " + std::to_string(gradient.parameter));
  }
  void add_local(const NewGradient& gradient) override {
    note("local " + std::to_string(gradient.parameter));
  }
  void flush() override {
    note("flush");
    if (throws) throw std::runtime_error("as asked");
  }
  void finalize() override { note("finalize"); }
  void discard() noexcept override { note("discard"); }

  bool throws = false;

 private:
  void note(const std::string& call) { calls_.push_back(name_ + call); }

  std::string name_;
  std::vector<std::string>& calls_;
};

class GradientSinkTest : public testing::Test {
 protected:
  GradientSinkTest() { pass.connect({&a, &b}, {{w, &a, 3}, {v, &b, 5}}); }
  void run() { (w.sum() * v.sum()).backward(); }

  using Calls = std::vector<std::string>;
  Calls calls;
  RecordingSink a{"a ", calls};
  RecordingSink b{"b ", calls};
  at::Tensor w = torch::ones({2}).set_requires_grad(true);
  at::Tensor v = torch::ones({2}).set_requires_grad(true);
  BackwardPass pass;
};

TEST_F(GradientSinkTest, AllSinksAreFlushedBeforeTheFirstIsFinalized) {
  run();
  ASSERT_EQ(calls.size(), 8u);
  EXPECT_EQ((Calls{calls[0], calls[1]}), (Calls{"a begin", "b begin"}));
  EXPECT_EQ((Calls{calls.end() - 4, calls.end()}),
            (Calls{"a flush", "b flush", "a finalize", "b finalize"}));
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "a add 3"), 1);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "b add 5"), 1);
}

TEST_F(GradientSinkTest, AnErrorDiscardsThePassOfAllSinks) {
  a.throws = true;
  EXPECT_THROW(run(), std::runtime_error);
  EXPECT_EQ((Calls{calls.end() - 3, calls.end()}),
            (Calls{"a flush", "a discard", "b discard"}));
}

TEST_F(GradientSinkTest, WithoutExchangeThereIsNoPass) {
  pass.set_sync(false);
  run();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "a local 3"), 1);
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "b local 5"), 1);
}

}  // namespace
}  // namespace sheaf::parallel

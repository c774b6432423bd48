#include "sheaf/spatial/split/dispatch.hpp"

#include <gtest/gtest.h>
#include <torch/library.h>

#include "sheaf/base/error.hpp"
#include "tests/spatial/on_grids.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

TEST(SplitOperations, SayWhatCannotBeSplit) {
  comm::run_threads(2, [](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("1x2"));
    const at::Tensor x = cut(at::rand({1, 2, 4, 6}), tiles);
    const auto message = [](const std::function<void()>& action) {
      try {
        action();
      } catch (const UsageError& error) {
        return std::string(error.what());
      }
      return std::string("nothing");
    };
    EXPECT_NE(message([&] { at::cumprod(x, 1); })
                  .find("aten::cumprod on a tensor that is split over ranks "
                        "(1x2x[0|4]x[0|3|6])"),
              std::string::npos)
        << message([&] { at::cumprod(x, 1); });
    EXPECT_NE(message([&] { x.softmax(3); }).find("the axis is cut"),
              std::string::npos);
    EXPECT_NE(message([&] {
                x.view({1, 8, 6});
              }).find("mix a cut axis"),
              std::string::npos);
    EXPECT_THROW(x.data_ptr(), c10::Error);
  });
}

using Action = std::function<at::Tensor(const at::Tensor&)>;

// Expects an error on each rank of a 2x1 grid.
void expect_refused(const Action& action,
                    std::initializer_list<std::string> words) {
  comm::run_threads(2, [&](const comm::Group& group) {
    const auto tiles = std::make_shared<Tiles>(group, halo::Grid::parse("2x1"));
    const at::Tensor x = cut(random({1, 2, 4, 6}, at::kDouble, 1), tiles);
    expect_throws<UsageError>([&] { action(x); }, words);
  });
}

TEST(SplitOperations, RefuseResultsInGivenTensors) {
  expect_refused(
      [](const at::Tensor& x) {
        at::Tensor out = at::zeros(x.sizes(), at::kDouble);
        return at::add_out(out, x, x);
      },
      {"aten::add", "`out`", "1x2x[0|2|4]x[0|6]"});
  expect_refused(
      [](const at::Tensor& x) {
        at::Tensor out = at::zeros({1}, at::kDouble);
        return at::sum_out(out, x, {0, 1, 2, 3});
      },
      {"aten::sum", "`out`"});
  expect_refused(
      [](const at::Tensor& x) {
        at::Tensor out = at::zeros({1, 4, 4, 6}, at::kDouble);
        return at::cat_out(out, {x, x}, 1);
      },
      {"aten::cat", "`out`", "1x2x[0|2|4]x[0|6] and 1x2x[0|2|4]x[0|6]"});
}

TEST(SplitOperations, RefuseFlattenedImagesTheyDoNotKnow) {
  const std::string word = "flattened image";
  expect_refused([](const at::Tensor& x) { return x.flatten(1).select(1, 0); },
                 {"aten::select", word});
  expect_refused([](const at::Tensor& x) { return x.flatten(1)[0]; },
                 {"aten::select", word});
  expect_refused([](const at::Tensor& x) { return x.flatten(1).squeeze(0); },
                 {"aten::squeeze", word});
  expect_refused(
      [](const at::Tensor& x) {
        return at::cat({x.flatten(1), x.flatten(1)}, 1);
      },
      {"aten::cat", word});
  // As in attention.
  expect_refused(
      [](const at::Tensor& x) { return x.flatten(2).transpose(1, 2); },
      {"aten::transpose", word, "before flatten()"});
  expect_refused(
      [](const at::Tensor& x) {
        return x.flatten(2).permute({0, 2, 1});
      },
      {"aten::permute", word});
  expect_refused(
      [](const at::Tensor& x) {
        return at::feature_dropout(x.flatten(1), 0.5, true);
      },
      {"aten::feature_dropout", word});
  expect_refused(
      [](const at::Tensor& x) {
        return at::nll_loss(x.flatten(1), at::zeros({1}, at::kLong));
      },
      {"nll_loss", word});
  expect_refused(
      [](const at::Tensor& x) {
        return x.view({1, 47});
      },
      {"aten::view", "47"});
}

TEST(SplitOperations, RefuseAllAxesAtOnce) {
  for (const Action& action :
       std::vector<Action>{[](const at::Tensor& x) { return x.max(); },
                           [](const at::Tensor& x) { return x.min(); },
                           [](const at::Tensor& x) { return x.argmax(); }})
    expect_refused(action, {"all axes at once"});
  expect_refused([](const at::Tensor& x) { return std::get<0>(x.topk(1, 2)); },
                 {"aten::topk", "the axis is cut"});
  expect_refused([](const at::Tensor& x) { return at::where(x > 0)[0]; },
                 {"aten::where"});
}

// The schema of f(Tensor self). Another argument was removed, which is still in
// memory behind the list. The compiler must not know what is removed, or it
// never writes the name.
c10::FunctionSchema schema_with_a_removed_argument() {
  std::vector<c10::Argument> arguments;
  arguments.reserve(2);
  arguments.emplace_back("self", c10::TensorType::get());
  arguments.emplace_back("removed", c10::IntType::get());
  const volatile std::size_t kept = 1;
  while (arguments.size() > kept) arguments.pop_back();
  return {"sheaf_dispatch_test::f", "", std::move(arguments), {}};
}

TORCH_LIBRARY(sheaf_dispatch_test, library) {
  library.def(schema_with_a_removed_argument());
}

TEST(SplitOperations, ArgumentsAreFoundByTheirNames) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
      "sheaf_dispatch_test::f", "");
  torch::jit::Stack stack{at::zeros({1})};
  const Call call(op, stack);
  ASSERT_EQ(call.count(), 1u);
  ASSERT_EQ(op.schema().arguments().capacity(), 2u);
  EXPECT_EQ(call.place("self"), 0u);
  EXPECT_EQ(call.place("removed"), std::nullopt);
  EXPECT_EQ(call.place(""), std::nullopt);
}

}  // namespace
}  // namespace sheaf::spatial

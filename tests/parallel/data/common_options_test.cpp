#include "sheaf/parallel/data/common_options.hpp"

#include <gtest/gtest.h>

#include "sheaf/base/error.hpp"
#include "sheaf/parallel/dad/dad_parallel.hpp"
#include "tests/parallel/common/training.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::parallel {
namespace {

using test::Mlp;

// The common options of another wrapper have the defaults of DataParallel.
TEST(CommonOptions, HaveTheSameDefaults) {
  const DataParallelOptions data;
  const DataParallelOptions dad = common_options(DadOptions{});
  EXPECT_EQ(named(dad), named(data));
  EXPECT_EQ(dad.overlap, data.overlap);
  EXPECT_EQ(dad.device, data.device);
  EXPECT_EQ(dad.exchange, data.exchange);
  EXPECT_EQ(dad.trace, data.trace);
  EXPECT_EQ(dad.kept.size(), data.kept.size());
}

TEST(CommonOptions, AreCopiedFromAnotherWrapper) {
  DadOptions given;
  given.bucket_mb = 3;
  given.first_bucket_mb = 2;
  given.broadcast_buffers = false;
  given.find_unused_parameters = true;
  given.static_graph = true;
  given.overlap = Overlap::kOff;
  given.device = at::Device(at::kMeta);
  given.exchange = make_plain_exchange();
  given.kept = {at::ones({1})};
  const DataParallelOptions copy = common_options(given);
  EXPECT_EQ(named(copy),
            (std::vector<NamedOption>{{"bucket_mb", "3"},
                                      {"first_bucket_mb", "2"},
                                      {"broadcast_buffers", "0"},
                                      {"find_unused_parameters", "1"},
                                      {"static_graph", "1"},
                                      {"exchange", "given"}}));
  EXPECT_EQ(copy.overlap, Overlap::kOff);
  EXPECT_EQ(copy.device, given.device);
  EXPECT_EQ(copy.exchange, given.exchange);
  ASSERT_EQ(copy.kept.size(), 1u);
  EXPECT_TRUE(copy.kept[0].is_same(given.kept[0]));
}

TEST(CommonOptions, BecomeThoseOfTheReducer) {
  const std::shared_ptr<BucketExchange> exchange = make_plain_exchange();
  const ReducerOptions options =
      reducer_options(DataParallelOptions{.bucket_mb = 0.5,
                                          .first_bucket_mb = 0.25,
                                          .find_unused_parameters = true,
                                          .static_graph = true,
                                          .overlap = Overlap::kOn,
                                          .exchange = exchange});
  EXPECT_EQ(options.caps.bytes, 512u << 10);
  EXPECT_EQ(options.caps.first_bytes, 256u << 10);
  EXPECT_TRUE(options.find_unused_parameters);
  EXPECT_TRUE(options.static_graph);
  EXPECT_EQ(options.overlap, Overlap::kOn);
  EXPECT_EQ(options.exchange, exchange);
  EXPECT_EQ(options.trace, nullptr);
  EXPECT_FALSE(options.is_staged);
}

TEST(CommonOptions, BucketsMustHaveASize) {
  DataParallelOptions options{.bucket_mb = 0};
  expect_throws<UsageError>([&] { reducer_options(options); },
                            {"bucket_mb 0 and", "must be above 0"});
  options = {.first_bucket_mb = -1};
  expect_throws<UsageError>([&] { reducer_options(options); },
                            {"first_bucket_mb -1", "must be above 0"});
}

// Tensors are compared by identity, not by value.
TEST(CommonOptions, KeptParametersAreListedByName) {
  Mlp net;
  const DataParallelOptions options{
      .kept = {net->last->bias, net->first->weight}};
  EXPECT_TRUE(is_kept(options, net->last->bias));
  EXPECT_FALSE(is_kept(options, net->first->bias));
  EXPECT_FALSE(is_kept(options, net->last->bias.clone()));
  std::vector<NamedOption> list{{"rank", "4"}};
  add_kept(options, *net, list);
  // In the order of the module.
  EXPECT_EQ(list, (std::vector<NamedOption>{{"rank", "4"},
                                            {"kept", "first.weight"},
                                            {"kept", "last.bias"}}));
}

}  // namespace
}  // namespace sheaf::parallel

// With `reproducible` every reduction gives the same bits as on one host, for
// every operation, algorithm, mode, host_map and type.

#include <gtest/gtest.h>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/make_group.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/comm/algorithms/ordered_sum.hpp"
#include "tests/support/outcomes.hpp"
#include "tests/support/tcp_ranks.hpp"

namespace sheaf::comm {
namespace {

using test::Hosts;
using test::ordered_sum;
using test::rough_data;
using test::same_bits;

// One count that fits into a slot, and one that needs several segments.
constexpr std::size_t kCounts[] = {300, 70001};

template <class T>
class OrderedOperations {
 public:
  OrderedOperations(const Group& group, std::size_t count,
                    CollectiveOptions options)
      : group_(group),
        count_(count),
        options_(options),
        mine_(rough_data<T>(group.rank(), count)),
        expected_(ordered_sum<T>(group.size(), count, options.op)) {}

  void check() {
    SCOPED_TRACE(testing::Message()
                 << name_of(dtype_of<T>) << " " << name_of(options_.op) << ", "
                 << count_ << " elements, algorithm "
                 << topo::name_of(options_.algorithm));
    all_reduces();
    reduces();
    reduce_scatters();
  }

 private:
  void all_reduces() {
    auto data = mine_;
    all_reduce(group_, data, options_).wait();
    EXPECT_TRUE(same_bits(data, expected_)) << "all_reduce";
    data = mine_;
    const std::size_t cut = count_ / 3;
    const Buffer parts[] = {{data.data(), cut, dtype_of<T>},
                            {data.data() + cut, count_ - cut, dtype_of<T>}};
    all_reduce_n(group_, parts, options_).wait();
    EXPECT_TRUE(same_bits(data, expected_)) << "all_reduce_n";
  }

  void reduces() {
    options_.root = group_.size() - 1;
    std::vector<T> output(count_);
    reduce(group_, mine_, output, options_).wait();
    auto in_place = mine_;
    reduce(group_, in_place, in_place, options_).wait();
    if (group_.rank() == options_.root) {
      EXPECT_TRUE(same_bits(output, expected_)) << "reduce";
      EXPECT_TRUE(same_bits(in_place, expected_)) << "reduce in place";
    }
    options_.root = 0;
  }

  // Into blocks of unequal sizes; one is empty, the last the largest.
  void reduce_scatters() {
    const auto ranks = static_cast<std::size_t>(group_.size());
    const auto me = static_cast<std::size_t>(group_.rank());
    std::vector<std::size_t> counts;
    std::size_t start = 0;
    std::size_t left = count_;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank == me) start = count_ - left;
      counts.push_back(rank + 1 == ranks ? left
                                         : rank * (count_ / ranks / ranks));
      left -= counts.back();
    }
    std::vector<T> output(counts[me]);
    reduce_scatter(group_, mine_, output, options_, counts).wait();
    const auto from = expected_.begin() + static_cast<long>(start);
    EXPECT_TRUE(same_bits(output, {from, from + static_cast<long>(counts[me])}))
        << "reduce_scatter";
  }

  const Group& group_;
  const std::size_t count_;
  CollectiveOptions options_;
  const std::vector<T> mine_;
  const std::vector<T> expected_;
};

void check_all_types(const Group& group, std::size_t count,
                     const CollectiveOptions& options) {
  OrderedOperations<float>(group, count, options).check();
  OrderedOperations<double>(group, count, options).check();
  OrderedOperations<Half>(group, count, options).check();
  OrderedOperations<BFloat16>(group, count, options).check();
}

class EveryReduction : public testing::TestWithParam<Hosts> {};

TEST_P(EveryReduction, HasTheBitsOfOneHostWhateverTheAlgorithm) {
  run_threads(GetParam(), [](const Group& group) {
    for (const auto op : {ReduceOp::kSum, ReduceOp::kAvg})
      for (const std::size_t count : kCounts)
        check_all_types(group, count, {.op = op, .reproducible = true});
    for (const auto algorithm :
         {Algorithm::kRing, Algorithm::kHalving, Algorithm::kTree,
          Algorithm::kHierarchical, Algorithm::kMpi})
      check_all_types(
          group, 5003,
          {.op = ReduceOp::kAvg, .algorithm = algorithm, .reproducible = true});
  });
}

// Requested by the call, and by the world's options.
TEST_P(EveryReduction, HasTheBitsOfOneHostWhateverTheMode) {
  const auto ranks = static_cast<int>(GetParam().size());
  for (const auto mode :
       {topo::Mode::kRing, topo::Mode::kMpi, topo::Mode::kNccl,
        topo::Mode::kBest, topo::Mode::kExplore})
    for (const bool by_world : {false, true}) {
      SCOPED_TRACE(testing::Message() << "mode " << topo::name_of(mode));
      topo::Options options;
      options.mode = mode;
      if (ranks % 2 == 0) options.dims = topo::Dims{{ranks / 2, 2}};
      options.reproducible = by_world;
      run_threads(
          GetParam(),
          [&](const Group& group) {
            check_all_types(group, 5003, {.reproducible = !by_world});
          },
          options);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Hosts, EveryReduction,
    testing::Values(Hosts{"a", "a", "a", "a"}, Hosts{"a", "a", "b", "b"},
                    Hosts{"a", "b", "a", "b"}, Hosts{"a", "b", "c", "d"},
                    Hosts{"a", "a", "a", "b"}, Hosts{"a", "b", "b", "a", "c"}),
    test::joined);

TEST(EveryReductionOverTcp, HasTheBitsOfOneHost) {
  const Hosts hosts{"a", "a", "b", "b"};
  test::run_transports(4, [&](auto& transport) {
    const auto rank = static_cast<std::size_t>(transport->rank());
    const World world(make_world(std::make_shared<Runtime>(
        std::move(transport),
        RuntimeOptions{
            .options = {}, .host = hosts[rank], .arena_bytes = 16ull << 30})));
    check_all_types(world, 70001, {.op = ReduceOp::kAvg, .reproducible = true});
  });
}

// Several segments of 4 MiB, also for blocks.
TEST(EveryReductionOfMuch, HasTheBitsOfOneHost) {
  run_threads({"a", "b"}, [](const Group& group) {
    OrderedOperations<float>(group, 2500001, {.reproducible = true}).check();
  });
}

}  // namespace
}  // namespace sheaf::comm

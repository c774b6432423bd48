#include "tests/support/random_use.hpp"

#include <cstdlib>
#include <random>

#include "sheaf/base/error.hpp"
#include "tests/support/trial.hpp"

namespace sheaf::test {
namespace {

using comm::Algorithm;
using comm::Group;
using comm::Operation;
using comm::ReduceOp;

// Around the limits of an arrival slot, a cache line, the small path and a
// segment.
constexpr std::size_t kCounts[] = {0,  1,   2,   3,   7,    8,    9,    15,
                                   16, 17,  31,  33,  63,   64,   65,   100,
                                   0,  127, 300, 511, 1000, 1023, 1025, 2047};
constexpr std::size_t kLargeCounts[] = {2049,  4095,  4096, 4097,
                                        16384, 16385, 40000};

// Every rank draws the same random numbers, whether it takes part or not:
// members of a group must make the same choices without communication.
class RandomUse {
 public:
  RandomUse(const Group& world, std::uint64_t seed)
      : world_(world), random_(seed) {
    groups_.push_back(world);
    while (groups_.size() < 5) groups_.push_back(new_group());
  }

  void sequence(int number) {
    if (number % 20 == 19) groups_[1 + draw(groups_.size() - 1)] = new_group();
    std::vector<Finish> under_way;
    const std::size_t steps = 1 + draw(5);
    for (std::size_t i = 0; i < steps; ++i) step(under_way);
    for (const Finish& finish : under_way) finish();
  }

 private:
  std::size_t draw(std::size_t below) { return random_() % below; }
  bool chance(std::size_t percent) { return draw(100) < percent; }

  // Most ranks of an existing group, or all of them in two halves, in any
  // order.
  Group new_group() {
    const Group parent = chance(70) ? world_ : groups_[draw(groups_.size())];
    const bool is_split = chance(40);
    const auto size = static_cast<std::size_t>(world_.size());
    std::vector<int> colors(size);
    std::vector<int> keys(size);
    for (int& color : colors)
      color = is_split ? chance(50) : chance(80) ? 0 : -1;
    for (int& key : keys) key = static_cast<int>(draw(size));
    if (!parent.is_member()) return {};
    const auto me = static_cast<std::size_t>(parent.rank());
    return parent.split(colors[me], keys[me]);
  }

  void step(std::vector<Finish>& under_way) {
    const Group& group = groups_[draw(groups_.size())];
    const Operation operation = operations()[draw(operations().size())];
    Case test = new_case();
    const std::size_t root = draw(1000);
    const std::size_t arena = draw(3);  // no ranks, all ranks, some ranks
    if (!group.is_member()) return;
    test.options.root =
        static_cast<int>(root % static_cast<std::size_t>(group.size()));
    if (arena == 1 || (arena == 2 && group.rank() % 2 == 1))
      test.memory = Memory::kArena;
    under_way.push_back(start(operation, group, test));
  }

  Case new_case() {
    Case test;
    do {
      test.dtype = static_cast<DType>(draw(kDTypeCount));
      test.op = static_cast<ReduceOp>(draw(comm::kReduceOpCount));
    } while (!is_defined(test.op, test.dtype));
    test.count = kCounts[draw(std::size(kCounts))];
    if (chance(5)) test.count = kLargeCounts[draw(std::size(kLargeCounts))];
    test.first = draw(1009);
    test.in_place = chance(30);
    test.is_unequal = chance(40);
    test.options.async = chance(40);
    test.options.reproducible = chance(20);
    constexpr Algorithm kAlgorithms[] = {Algorithm::kRing, Algorithm::kHalving,
                                         Algorithm::kTree,
                                         Algorithm::kHierarchical};
    const Algorithm algorithm = kAlgorithms[draw(std::size(kAlgorithms))];
    if (chance(30)) test.options.algorithm = algorithm;
    return test;
  }

  const Group& world_;
  std::mt19937_64 random_;
  std::vector<Group> groups_;
};

}  // namespace

void use_at_random(const Group& world, std::uint64_t seed, int sequences) {
  int number = 0;
  try {
    RandomUse use(world, seed);
    for (; number < sequences && !testing::Test::HasFailure(); ++number) {
      SCOPED_TRACE(testing::Message()
                   << "SHEAF_TEST_SEED=" << seed << ", sequence " << number);
      use.sequence(number);
    }
  } catch (const std::exception& error) {
    ADD_FAILURE() << "SHEAF_TEST_SEED=" << seed << ", sequence " << number
                  << ": " << error.what();
    throw;
  }
}

std::uint64_t seed_or(std::uint64_t seed) {
  const char* text = std::getenv("SHEAF_TEST_SEED");
  return text ? std::strtoull(text, nullptr, 10) : seed;
}

}  // namespace sheaf::test

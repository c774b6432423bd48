// Invalid arguments are reported immediately, without waiting for other ranks.

#include <gtest/gtest.h>

#include "sheaf/comm/group/collectives.hpp"
#include "sheaf/comm/group/point_to_point.hpp"
#include "sheaf/comm/group/world.hpp"
#include "tests/support/outcomes.hpp"

namespace sheaf::comm {
namespace {

using Floats = std::vector<float>;

struct Mistake {
  std::string words;  // expected in the message
  std::function<void(const Group&)> call;
};

std::vector<Mistake> mistakes() {
  return {
      {"root 3", [](auto& g) { broadcast(g, Floats(1), {.root = 3}).wait(); }},
      {"root -1",
       [](auto& g) { reduce(g, Floats(1), Floats(1), {.root = -1}).wait(); }},
      {"the input is f32, the output i32",
       [](auto& g) { all_reduce(g, Floats(2), std::vector<int>(2)).wait(); }},
      {"output has 3 elements, expected 2",
       [](auto& g) { all_reduce(g, Floats(2), Floats(3)).wait(); }},
      {"not defined for f32",
       [](auto& g) {
         all_reduce(g, Floats(2), {.op = ReduceOp::kBitXor}).wait();
       }},
      {"output has 3 elements, expected 6",
       [](auto& g) { all_gather(g, Floats(2), Floats(3)).wait(); }},
      {"2 counts for 3 ranks",
       [](auto& g) {
         all_gather(g, Floats(2), Floats(6), {}, std::vector<std::size_t>{2, 4})
             .wait();
       }},
      {"input has 5 elements, expected 6",
       [](auto& g) { reduce_scatter(g, Floats(5), Floats(2)).wait(); }},
      {"4 elements do not divide",
       [](auto& g) { all_to_all(g, Floats(4), Floats(4)).wait(); }},
      {"input has 6 elements, expected 9",
       [](auto& g) {
         const std::vector<std::size_t> counts{3, 3, 3};
         all_to_all(g, Floats(6), Floats(9), {}, counts, counts).wait();
       }},
      {"output has 3 elements, expected 6",
       [](auto& g) { all_to_all(g, Floats(6), Floats(3)).wait(); }},
      {"output has 7 elements, expected 6",
       [](auto& g) {
         const std::vector<std::size_t> sent{4, 1, 1};
         const std::vector<std::size_t> received{4, 2, 0};
         all_to_all(g, Floats(6), Floats(7), {}, sent, received).wait();
       }},
      {"in place",
       [](auto& g) {
         Floats data(6);
         all_to_all(g, data, data).wait();
       }},
      {"send to rank 3", [](auto& g) { send(g, Floats(1), 3); }},
      {"send to rank -1", [](auto& g) { send(g, Floats(1), kAnySource); }},
      {"recv from rank 7", [](auto& g) { recv(g, Floats(1), 7); }},
      {"rank 3 is not in the group",
       [](auto& g) {
         g.new_group({0, 3});
       }},
      {"rank 1 is named more than once",
       [](auto& g) {
         g.new_group({1, 1});
       }},
      {"is_member()", [](auto&) { barrier(Group()).wait(); }},
      {"is_member()", [](auto&) { all_reduce(Group(), Floats(1)).wait(); }},
      {"broadcast: this rank is not in the group",
       [](auto&) { broadcast(Group(), Floats(1)).wait(); }},
      {"is_member()", [](auto&) { send(Group(), Floats(1), 0); }},
      {"is_member()", [](auto&) { Group().split(0); }}};
}

void expect_told(const Mistake& mistake, const Group& group) {
  const auto outcome = test::outcome_of([&] { mistake.call(group); });
  EXPECT_EQ(outcome.ending, test::Ending::kUsage)
      << mistake.words << ": " << outcome;
  EXPECT_TRUE(outcome.names(mistake.words))
      << "'" << mistake.words << "' is not in: " << outcome;
}

TEST(Usage, ErrorsAreReportedAndHarmless) {
  run_threads(3, [](const Group& group) {
    for (const Mistake& mistake : mistakes()) expect_told(mistake, group);
    Floats one{1};
    all_reduce(group, one).wait();
    EXPECT_EQ(one[0], 3);
  });
}

TEST(Usage, ASingleRankComparesTheSizesOfItsBuffers) {
  run_threads(1, [](const Group& group) {
    const std::vector<std::size_t> sent{6};
    const std::vector<std::size_t> received{3};
    const std::vector<Mistake> all{
        {"output has 3 elements, expected 6",
         [](auto& g) { all_to_all(g, Floats(6), Floats(3)).wait(); }},
        {"output has 3 elements, expected 6", [&](auto& g) {
           all_to_all(g, Floats(6), Floats(3), {}, sent, received).wait();
         }}};
    for (const Mistake& mistake : all) expect_told(mistake, group);
  });
}

std::vector<Mistake> mistakes_of_root_1() {
  return {
      {"output has 3 elements, expected 4",
       [](auto& g) { gather(g, Floats(2), Floats(3), {.root = 1}).wait(); }},
      {"the input is f32, the output i32",
       [](auto& g) {
         gather(g, Floats(2), std::vector<int>(4), {.root = 1}).wait();
       }},
      {"input has 3 elements, expected 4",
       [](auto& g) { scatter(g, Floats(3), Floats(2), {.root = 1}).wait(); }},
      {"the input is i32, the output f32",
       [](auto& g) {
         scatter(g, std::vector<int>(4), Floats(2), {.root = 1}).wait();
       }},
      {"output",
       [](auto& g) { reduce(g, Floats(2), Floats(3), {.root = 1}).wait(); }},
  };
}

TEST(Usage, AnErrorOfTheRootIsReportedToTheRoot) {
  run_threads(2, [](const Group& group) {
    if (group.rank() != 1) return;
    for (const Mistake& mistake : mistakes_of_root_1())
      expect_told(mistake, group);
  });
}

}  // namespace
}  // namespace sheaf::comm

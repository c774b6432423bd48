// Compares random windows on random grids with a single process.

#include <gtest/gtest.h>

#include "tests/spatial/on_grids.hpp"
#include "tests/spatial/random_cases.hpp"
#include "tests/spatial/random_chains.hpp"

namespace sheaf::spatial {
namespace {

using namespace test;

void expect_many_same(const std::string& grid, int count, at::ScalarType type,
                      double tolerance,
                      parallel::Overlap overlap = parallel::Overlap::kAuto) {
  expect_on_grids(random_cases(halo::Grid::parse(grid), count), {grid}, type,
                  tolerance, overlap);
}

TEST(RandomWindows, GiveWhatOneProcessGives) {
  for (const char* grid : {"1", "2", "3", "4", "6", "9", "16"})
    expect_many_same(grid, 120, at::kDouble, 1e-12);
  for (const char* grid :
       {"1x1", "1x2", "2x1", "1x3", "3x1", "2x2", "1x4", "4x1", "2x3", "3x2",
        "1x6", "6x1", "3x3", "1x9", "9x1"})
    expect_many_same(grid, 80, at::kDouble, 1e-12);
  for (const char* grid : {"3", "2x2"})
    expect_many_same(grid, 60, at::kFloat, 1e-5);
}

// Without overlap: the halos are exchanged before the whole tile is computed,
// and sums are sent back.
TEST(RandomWindows, GiveTheSameWhenHalosComeFirst) {
  for (const char* grid : {"1", "2", "3", "6"})
    expect_many_same(grid, 100, at::kDouble, 1e-12, parallel::Overlap::kOff);
  for (const char* grid : {"1x2", "2x1", "2x2", "3x2", "3x3"})
    expect_many_same(grid, 80, at::kDouble, 1e-12, parallel::Overlap::kOff);
}

TEST(RandomChains, GiveWhatOneProcessGives) {
  unsigned seed = 1;
  for (const char* grid : {"1x2", "2x1", "2x2", "6x1", "3x2", "1x4"})
    expect_on_grids(random_chains(seed++, 60), {grid}, at::kDouble, 1e-10);
  expect_on_grids(random_chains(seed, 40), {"2x2"}, at::kFloat, 1e-4);
}

// The outcome of an operation on a rank: the same as in a single process, or an
// error that contains its name.
std::string outcome(const NamedStep& operation, const at::Tensor& whole,
                    const std::shared_ptr<Tiles>& tiles) {
  at::Tensor made;
  try {
    made = operation.step(cut(whole, tiles));
  } catch (const UsageError& error) {
    const bool is_named =
        std::string(error.what()).find("::") != std::string::npos;
    return is_named ? "refused" : error.what();
  } catch (const std::exception& error) {
    return concat("unclear: ", std::string(error.what()).substr(0, 200));
  }
  const at::Tensor wanted = operation.step(whole);
  const at::Tensor found = is_split(made) ? gather(made) : made;
  return found.sizes() == wanted.sizes() &&
                 distance(found.to(at::kDouble), wanted.to(at::kDouble)) < 1e-12
             ? "same"
             : "wrong";
}

// Operations with and without a rule, on images that are unchanged, flattened,
// or have other axes.
std::vector<NamedStep> catalog() {
  std::vector<NamedStep> all;
  const std::vector<NamedStep> forms{
      {"image", [](const at::Tensor& x) { return x; }},
      {"flat from 1", [](const at::Tensor& x) { return x.flatten(1); }},
      {"flat from 2", [](const at::Tensor& x) { return x.flatten(2); }},
      {"all flat", [](const at::Tensor& x) { return x.flatten(); }},
      {"channels last", [](const at::Tensor& x) {
         return x.permute({0, 2, 3, 1});
       }}};
  const std::vector<NamedStep> operations{
      {"select 0", [](const at::Tensor& x) { return x.select(0, 0); }},
      {"select last", [](const at::Tensor& x) { return x.select(-1, 0); }},
      {"slice", [](const at::Tensor& x) { return x.slice(-1, 1, 3); }},
      {"squeeze", [](const at::Tensor& x) { return x.squeeze(0); }},
      {"unsqueeze", [](const at::Tensor& x) { return x.unsqueeze(0); }},
      {"cat 0",
       [](const at::Tensor& x) {
         return at::cat({x, x}, 0);
       }},
      {"cat last",
       [](const at::Tensor& x) {
         return at::cat({x, x}, -1);
       }},
      {"stack",
       [](const at::Tensor& x) {
         return at::stack({x, x});
       }},
      {"transpose", [](const at::Tensor& x) { return x.transpose(0, -1); }},
      {"t of all", [](const at::Tensor& x) { return x.flatten().view({-1}); }},
      {"sum", [](const at::Tensor& x) { return x.sum(); }},
      {"sum of all, kept",
       [](const at::Tensor& x) {
         std::vector<std::int64_t> axes;
         for (std::int64_t i = 0; i < x.dim(); ++i) axes.push_back(i);
         return x.sum(axes, true);
       }},
      {"sum last", [](const at::Tensor& x) { return x.sum(-1); }},
      {"mean 0", [](const at::Tensor& x) { return x.mean(0, true); }},
      {"max", [](const at::Tensor& x) { return x.max(); }},
      {"min", [](const at::Tensor& x) { return x.min(); }},
      {"max last", [](const at::Tensor& x) { return std::get<0>(x.max(-1)); }},
      {"max 0", [](const at::Tensor& x) { return std::get<0>(x.max(0)); }},
      {"amax", [](const at::Tensor& x) { return x.amax(); }},
      {"argmax", [](const at::Tensor& x) { return x.argmax(); }},
      {"argmax 0", [](const at::Tensor& x) { return x.argmax(0); }},
      {"topk", [](const at::Tensor& x) { return std::get<0>(x.topk(1, 0)); }},
      {"sort", [](const at::Tensor& x) { return std::get<0>(x.sort(0)); }},
      {"logsumexp", [](const at::Tensor& x) { return x.logsumexp({0}); }},
      {"cumsum", [](const at::Tensor& x) { return x.cumsum(0); }},
      {"cumsum last", [](const at::Tensor& x) { return x.cumsum(-1); }},
      {"norm", [](const at::Tensor& x) { return x.norm(); }},
      {"std", [](const at::Tensor& x) { return x.std(); }},
      {"prod", [](const at::Tensor& x) { return x.prod(); }},
      {"any", [](const at::Tensor& x) { return (x > 0).any(); }},
      {"softmax 0", [](const at::Tensor& x) { return x.softmax(0); }},
      {"softmax last", [](const at::Tensor& x) { return x.softmax(-1); }},
      {"layer norm",
       [](const at::Tensor& x) { return at::layer_norm(x, {x.size(-1)}); }},
      {"group norm",
       [](const at::Tensor& x) { return at::group_norm(x.unsqueeze(0), 1); }},
      {"abs", [](const at::Tensor& x) { return x.abs() + x * x; }},
      {"where", [](const at::Tensor& x) { return at::where(x > 0, x, -x); }},
      {"plus its sizes",
       [](const at::Tensor& x) {
         return x + at::ones(x.sizes(), at::kDouble);
       }},
      {"mse",
       [](const at::Tensor& x) {
         return at::mse_loss(x, at::ones(x.sizes(), at::kDouble));
       }},
      {"matmul of itself",
       [](const at::Tensor& x) { return at::matmul(x, x.transpose(-1, -2)); }},
      {"linear",
       [](const at::Tensor& x) {
         return at::linear(x, at::ones({2, x.size(-1)}, at::kDouble));
       }},
      {"pad",
       [](const at::Tensor& x) {
         return at::constant_pad_nd(x, {1, 2});
       }},
      {"view as one", [](const at::Tensor& x) { return x.reshape({-1}); }},
      {"expand",
       [](const at::Tensor& x) {
         return x.unsqueeze(0).expand({2, -1});
       }},
      {"repeat",
       [](const at::Tensor& x) {
         return x.repeat({2, 1, 1, 1});
       }},
      {"flip", [](const at::Tensor& x) { return x.flip(-1); }},
      {"roll", [](const at::Tensor& x) { return at::roll(x, {1}, {-1}); }},
      {"chunk", [](const at::Tensor& x) { return x.chunk(2, -1)[0]; }},
      {"index",
       [](const at::Tensor& x) {
         return x.index_select(-1, at::zeros({1}, at::kLong));
       }},
      {"add into",
       [](const at::Tensor& x) {
         at::Tensor out = at::empty({0}, at::kDouble);
         return at::add_out(out, x, x);
       }},
      {"into a whole one",
       [](const at::Tensor& x) {
         at::Tensor out = at::zeros(x.sizes(), at::kDouble);
         return out.add_(x);
       }},
      {"copied to a whole one",
       [](const at::Tensor& x) {
         at::Tensor out = at::zeros(x.sizes(), at::kDouble);
         return out.copy_(x);
       }},
      {"unfold", [](const at::Tensor& x) { return at::im2col(x, 2, 1, 0, 1); }},
      {"pixel shuffle",
       [](const at::Tensor& x) { return at::pixel_shuffle(x, 1); }},
      {"reflection",
       [](const at::Tensor& x) {
         return at::reflection_pad2d(x, {1, 1, 1, 1});
       }},
  };
  for (const NamedStep& form : forms)
    for (const NamedStep& operation : operations)
      all.push_back(
          {operation.name + " of " + form.name,
           [=](const at::Tensor& x) { return operation.step(form.step(x)); }});
  return all;
}

bool works_alone(const NamedStep& operation, const at::Tensor& whole) {
  try {
    operation.step(whole);
  } catch (const c10::Error&) {
    return false;
  }
  return true;
}

TEST(RandomChains, OperationsAreTheSameOrRefusedByAllRanks) {
  const at::Tensor whole = random({1, 2, 3, 4}, at::kDouble, 1);
  std::vector<NamedStep> operations;
  for (NamedStep& one : catalog())
    if (works_alone(one, whole)) operations.push_back(std::move(one));
  for (const char* grid : {"1x2", "2x1", "5x1"}) {
    const auto ranks = static_cast<std::size_t>(ranks_of(grid));
    std::vector<std::vector<std::string>> found(
        operations.size(), std::vector<std::string>(ranks));
    comm::run_threads(ranks_of(grid), [&](const comm::Group& group) {
      const auto tiles =
          std::make_shared<Tiles>(group, halo::Grid::parse(grid));
      for (std::size_t i = 0; i < operations.size(); ++i)
        found[i][static_cast<std::size_t>(group.rank())] =
            outcome(operations[i], whole, tiles);
    });
    int same = 0;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const std::string& first = found[i][0];
      EXPECT_TRUE(first == "same" || first == "refused")
          << operations[i].name << " on " << grid << ": " << first;
      for (const std::string& other : found[i])
        EXPECT_EQ(other, first) << operations[i].name << " on " << grid;
      same += first == "same" ? 1 : 0;
    }
    EXPECT_GT(same, 60) << grid;
  }
}

}  // namespace
}  // namespace sheaf::spatial

// Convolutions along an axis split among ranks, forward and both forms of
// backward, compared with the unsplit convolution. Inputs are small integers,
// so sums are exact and results must be bitwise equal.

#include <gtest/gtest.h>

#include <random>

#include "sheaf/halo/halo_plan.hpp"
#include "sheaf/halo/window.hpp"
#include "tests/halo/random_case.hpp"

namespace sheaf::halo {
namespace {

using Row = std::vector<double>;

Row random_row(std::mt19937& random, std::int64_t size) {
  Row row(static_cast<std::size_t>(size));
  for (double& value : row) value = static_cast<double>(pick(random, -4, 4));
  return row;
}

double& at(Row& row, std::int64_t index) {
  return row[static_cast<std::size_t>(index)];
}
double at(const Row& row, std::int64_t index) {
  return row[static_cast<std::size_t>(index)];
}

// A convolution without padding, as a rank runs it on its wanted box.
Row convolve(const Row& x, const Row& w, const Window& window,
             std::int64_t outputs) {
  Row y(static_cast<std::size_t>(outputs), 0.0);
  for (std::int64_t o = 0; o < outputs; ++o)
    for (std::int64_t k = 0; k < window.kernel; ++k)
      at(y, o) += at(w, k) * at(x, o * window.stride + k * window.dilation);
  return y;
}

Row spread(const Row& dy, const Row& w, const Window& window,
           std::int64_t inputs) {
  Row dx(static_cast<std::size_t>(inputs), 0.0);
  for (std::int64_t o = 0; o < static_cast<std::int64_t>(dy.size()); ++o)
    for (std::int64_t k = 0; k < window.kernel; ++k)
      at(dx, o * window.stride + k * window.dilation) += at(w, k) * at(dy, o);
  return dx;
}

Row slice(const Row& row, const Interval& part) {
  return {row.begin() + part.begin, row.begin() + part.begin + part.size()};
}

struct Problem {
  Window window;
  std::int64_t inputs;
  Cuts owners;
  Cuts outputs;
  Row x, w, dy;
  // Results without splitting; in ceil mode with enough high padding.
  Row y, dx;
};

Problem make_problem(std::mt19937& random, const Window& window,
                     std::int64_t inputs, Cuts owners, Cuts outputs) {
  Problem p{window, inputs, std::move(owners), std::move(outputs), {}, {}, {},
            {},     {}};
  const std::int64_t count = output_size(window, inputs);
  p.x = random_row(random, inputs);
  p.w = random_row(random, window.kernel);
  p.dy = random_row(random, count);
  const Interval reach = needed(window, {0, count});
  Row padded(static_cast<std::size_t>(
                 std::max(inputs + window.pad_low, reach.end + window.pad_low)),
             0.0);
  std::copy(p.x.begin(), p.x.end(), padded.begin() + window.pad_low);
  p.y = convolve(padded, p.w, window, count);
  const Row spread_out =
      spread(p.dy, p.w, window, static_cast<std::int64_t>(padded.size()));
  p.dx = slice(spread_out, {window.pad_low, window.pad_low + inputs});
  return p;
}

std::vector<Box> needs_of(const Problem& p) {
  std::vector<Box> needs;
  for (int part = 0; part < p.owners.parts(); ++part) {
    Box box;
    box[0] = clamp(needed(p.window, p.outputs[part]), p.inputs).inside;
    needs.push_back(box);
  }
  return needs;
}

// The wanted box of a rank, assembled from the plan's messages, with padding.
Row assemble(const Problem& p, const HaloPlan& plan, const Padded& padded) {
  Row row(
      static_cast<std::size_t>(padded.low + padded.inside.size() + padded.high),
      0.0);
  const auto bring = [&](const Box& box) {
    for (std::int64_t i = box[0].begin; i < box[0].end; ++i)
      at(row, padded.low + i - padded.inside.begin) = at(p.x, i);
  };
  bring(plan.local);
  for (const HaloMessage& message : plan.receives) bring(message.box);
  return row;
}

struct Seen {
  int crops = 0, far = 0, empty = 0;
};

void check_forward_and_adjoint(const Problem& p, Seen& seen) {
  const Tiling tiling(Grid::parse(std::to_string(p.owners.parts())),
                      {p.owners});
  const auto needs = needs_of(p);
  Row sum(p.dx.size(), 0.0);
  for (int rank = 0; rank < p.owners.parts(); ++rank) {
    const Interval mine = p.outputs[rank];
    const HaloPlan plan = make_plan(tiling, needs, rank);
    const Padded padded = clamp(needed(p.window, mine), p.inputs);
    const Row x = assemble(p, plan, padded);
    ASSERT_EQ(convolve(x, p.w, p.window, mine.size()), slice(p.y, mine));
    const Row dx = spread(slice(p.dy, mine), p.w, p.window,
                          static_cast<std::int64_t>(x.size()));
    for (std::int64_t i = 0; i < padded.inside.size(); ++i)
      at(sum, padded.inside.begin + i) += at(dx, padded.low + i);
    seen.empty += mine.is_empty();
    seen.crops += plan.local != plan.tile;
    for (const HaloMessage& message : plan.receives)
      seen.far += std::abs(message.peer - rank) > 1;
  }
  ASSERT_EQ(sum, p.dx);
}

// The other form of backward: owners fetch the output gradients that touch
// their inputs, and compute without further communication.
void check_gather(const Problem& p) {
  const std::int64_t count = p.outputs.size();
  for (int rank = 0; rank < p.owners.parts(); ++rank) {
    const Interval mine = p.owners[rank];
    const Interval outputs = touching(p.window, mine, count);
    const Interval reach = needed(p.window, outputs);
    const Row dx = spread(slice(p.dy, outputs), p.w, p.window, reach.size());
    for (std::int64_t i = mine.begin; i < mine.end; ++i)
      ASSERT_EQ(reach.contains(i) ? at(dx, i - reach.begin) : 0.0, at(p.dx, i));
  }
}

void check(const Problem& p, Seen& seen) {
  check_forward_and_adjoint(p, seen);
  check_gather(p);
}

TEST(HaloMathTest, RandomCutsGiveWhatOnePieceGives) {
  std::mt19937 random(3);
  Seen seen;
  for (int i = 0; i < 6000; ++i) {
    Window window{pick(random, 1, 7), pick(random, 1, 4)};
    window.dilation = pick(random, 1, 3);
    window.pad_low = pick(random, 0, 4);
    window.pad_high = pick(random, 0, 4);
    window.ceil_mode = pick(random, 0, 1) != 0;
    const std::int64_t inputs = pick(random, 1, 40);
    if (inputs + window.pad_low + window.pad_high < window.extent()) continue;
    const int parts = static_cast<int>(pick(random, 1, i % 10 ? 5 : 16));
    const Cuts owners = random_cuts(random, inputs, parts);
    const std::int64_t count = output_size(window, inputs);
    const Cuts outputs = i % 3 == 0   ? following_cuts(window, owners)
                         : i % 3 == 1 ? Cuts::balanced(count, parts)
                                      : random_cuts(random, count, parts);
    check(make_problem(random, window, inputs, owners, outputs), seen);
    ASSERT_FALSE(HasFatalFailure()) << "case " << i;
  }
  // The interesting cases did occur.
  EXPECT_GT(seen.crops, 1000);
  EXPECT_GT(seen.far, 1000);
  EXPECT_GT(seen.empty, 1000);
}

TEST(HaloMathTest, EvenCutsOfOddSizesGiveWhatOnePieceGives) {
  std::mt19937 random(4);
  Seen seen;
  for (const std::int64_t inputs : {27, 28, 29, 31, 55})
    for (const int parts : {1, 2, 3, 4, 5, 6, 9, 16})
      for (std::int64_t kernel = 1; kernel <= 7; ++kernel)
        for (std::int64_t stride = 1; stride <= 3; ++stride)
          for (const bool is_padded : {false, true}) {
            Window window{kernel, stride};
            if (is_padded) window.pad_low = window.pad_high = kernel / 2;
            const Cuts owners = Cuts::balanced(inputs, parts);
            const Cuts even =
                Cuts::balanced(output_size(window, inputs), parts);
            check(make_problem(random, window, inputs, owners, even), seen);
            check(make_problem(random, window, inputs, owners,
                               following_cuts(window, owners)),
                  seen);
            ASSERT_FALSE(HasFatalFailure())
                << inputs << " in " << parts << ", kernel " << kernel
                << " stride " << stride << (is_padded ? " padded" : "");
          }
}

// Transposed convolution: a rank's outputs are cropped and filled with zeros.
TEST(HaloMathTest, TransposedGivesWhatOnePieceGives) {
  std::mt19937 random(5);
  for (int i = 0; i < 3000; ++i) {
    Window window{pick(random, 1, 5), pick(random, 1, 4)};
    window.dilation = pick(random, 1, 2);
    const std::int64_t inputs = pick(random, 1, 20);
    const std::int64_t span = (inputs - 1) * window.stride + window.extent();
    window.pad_low = pick(random, 0, std::min<std::int64_t>(3, span / 2));
    window.pad_high = pick(random, 0, std::min<std::int64_t>(3, span / 2));
    const std::int64_t extra = pick(random, 0, window.stride - 1);
    const std::int64_t count = transposed_size(window, inputs, extra);
    const Row x = random_row(random, inputs);
    const Row w = random_row(random, window.kernel);
    const Row all = spread(x, w, window, span + extra);
    const Row y = slice(all, {window.pad_low, window.pad_low + count});
    const Cuts owners = random_cuts(random, inputs, 4);
    const Cuts outputs = i % 2
                             ? random_cuts(random, count, 4)
                             : transposed_following_cuts(window, owners, extra);
    for (int rank = 0; rank < 4; ++rank) {
      const Interval mine = outputs[rank];
      const Interval need = transposed_needed(window, mine, inputs);
      const Interval made = transposed_produced(window, need);
      const Row part = spread(slice(x, need), w, window, made.size());
      for (std::int64_t o = mine.begin; o < mine.end; ++o)
        ASSERT_EQ(made.contains(o) ? at(part, o - made.begin) : 0.0, at(y, o))
            << "case " << i;
    }
  }
}

}  // namespace
}  // namespace sheaf::halo

// Compares every formula with its definition, for all small windows.

#include "sheaf/halo/window.hpp"

#include <gtest/gtest.h>

#include <random>

#include "sheaf/base/error.hpp"
#include "tests/halo/random_case.hpp"
#include "tests/support/expect_error.hpp"

namespace sheaf::halo {
namespace {

std::string name_of(const Window& w, std::int64_t inputs) {
  return concat("kernel ", w.kernel, " stride ", w.stride, " pads ", w.pad_low,
                ",", w.pad_high, " dilation ", w.dilation,
                w.ceil_mode ? " ceil" : "", " of ", inputs);
}

// Counts outputs by definition: windows are placed one after another.
std::int64_t count_outputs(const Window& w, std::int64_t inputs) {
  std::int64_t count = 0;
  for (;; ++count) {
    const std::int64_t begin = count * w.stride - w.pad_low;
    const std::int64_t end = begin + w.extent();
    if (end <= inputs + w.pad_high) continue;
    // The previous window left some positions uncovered.
    const bool hangs_over = end - w.stride < inputs + w.pad_high;
    if (!w.ceil_mode || !hangs_over || begin >= inputs) return count;
  }
}

bool reaches(const Window& w, std::int64_t output, const Interval& inputs) {
  for (std::int64_t k = 0; k < w.kernel; ++k)
    if (inputs.contains(output * w.stride - w.pad_low + k * w.dilation))
      return true;
  return false;
}

// Calls body(window, inputs) for all small windows that fit.
template <class Body>
void for_each_window(Body body) {
  for (std::int64_t bits = 0; bits < 5 * 4 * 3 * 4 * 4 * 2; ++bits) {
    std::int64_t rest = bits;
    const auto take = [&](std::int64_t below) {
      const std::int64_t value = rest % below;
      rest /= below;
      return value;
    };
    Window w{1 + take(5), 1 + take(4)};
    w.dilation = 1 + take(3);
    w.pad_low = take(4);
    w.pad_high = take(4);
    w.ceil_mode = take(2) != 0;
    for (std::int64_t inputs = 1; inputs <= 12; ++inputs)
      if (inputs + w.pad_low + w.pad_high >= w.extent()) body(w, inputs);
  }
}

TEST(WindowTest, CountsOutputs) {
  for_each_window([](const Window& w, std::int64_t inputs) {
    // Ceil mode exists only in pooling layers, which allow no more padding.
    const std::int64_t most = w.extent() / 2;
    if (w.ceil_mode && std::max(w.pad_low, w.pad_high) > most) return;
    ASSERT_EQ(output_size(w, inputs), count_outputs(w, inputs))
        << name_of(w, inputs);
  });
}

TEST(WindowTest, CountsOutputsAsPoolingLayersDo) {
  const Window w{.kernel = 2, .stride = 2, .ceil_mode = true};
  EXPECT_EQ(output_size(w, 5), 3);
  // The last window would be entirely in the high padding.
  EXPECT_EQ(output_size({.kernel = 2,
                         .stride = 3,
                         .pad_low = 1,
                         .pad_high = 1,
                         .ceil_mode = true},
                        5),
            2);
  EXPECT_EQ(output_size({.kernel = 1, .stride = 4, .ceil_mode = true}, 4), 1);
  EXPECT_EQ(output_size({.kernel = 3, .stride = 2}, 55), 27);
  // In ceil mode, a window larger than the input fits once.
  EXPECT_EQ(output_size({.kernel = 4, .stride = 3, .ceil_mode = true}, 2), 1);
  EXPECT_THROW(output_size({.kernel = 4, .stride = 2, .ceil_mode = true}, 2),
               UsageError);
}

TEST(WindowTest, NeedsItsInputsAndNoOthers) {
  for_each_window([](const Window& w, std::int64_t inputs) {
    const std::int64_t outputs = output_size(w, inputs);
    for (std::int64_t begin = 0; begin < outputs; ++begin) {
      const Interval some{begin, std::min(outputs, begin + 3)};
      const Interval need = needed(w, some);
      ASSERT_EQ(need.begin, begin * w.stride - w.pad_low);
      ASSERT_EQ(need.size(), (some.size() - 1) * w.stride + w.extent());
      const Padded padded = clamp(need, inputs);
      ASSERT_EQ(padded.low + padded.inside.size() + padded.high, need.size());
      ASSERT_TRUE((Interval{0, inputs}.contains(padded.inside)));
      for (std::int64_t i = 0; i < inputs; ++i)
        ASSERT_EQ(padded.inside.contains(i), need.contains(i))
            << name_of(w, inputs) << " outputs " << some << " input " << i;
    }
  });
  EXPECT_TRUE(needed({.kernel = 3}, {4, 4}).is_empty());
}

TEST(WindowTest, InteriorNeedsNoHalo) {
  for_each_window([](const Window& w, std::int64_t inputs) {
    const Interval outputs{0, output_size(w, inputs)};
    for (std::int64_t x = 0; x < inputs; x += 2)
      for (std::int64_t y = x + 1; y <= inputs; y += 3) {
        const Interval inner = interior(w, outputs, {x, y}, inputs);
        for (std::int64_t o = 0; o < outputs.end; ++o) {
          const Interval need = needed(w, {o, o + 1});
          const bool is_inner =
              (x == 0 || need.begin >= x) && (y == inputs || need.end <= y);
          ASSERT_EQ(inner.contains(o), is_inner)
              << name_of(w, inputs) << " owned " << Interval{x, y} << " " << o;
        }
      }
  });
}

TEST(WindowTest, TouchingOutputsAreThoseThatReachTheInputs) {
  for_each_window([](const Window& w, std::int64_t inputs) {
    const std::int64_t outputs = output_size(w, inputs);
    for (std::int64_t x = 0; x < inputs; x += 2)
      for (std::int64_t y = x + 1; y <= inputs; y += 3) {
        const Interval found = touching(w, {x, y}, outputs);
        for (std::int64_t o = 0; o < outputs; ++o) {
          const Interval need = needed(w, {o, o + 1});
          ASSERT_EQ(found.contains(o), need.begin < y && need.end > x);
          ASSERT_TRUE(found.contains(o) || !reaches(w, o, {x, y}));
        }
      }
    ASSERT_TRUE(touching(w, {1, 1}, outputs).is_empty());
  });
}

TEST(WindowTest, OutputsFollowTheCentreOfTheirWindow) {
  std::mt19937 random(1);
  for_each_window([&](const Window& w, std::int64_t inputs) {
    const Cuts owners = random_cuts(random, inputs, 3);
    const Cuts cuts = following_cuts(w, owners);
    ASSERT_EQ(cuts.size(), output_size(w, inputs));
    for (std::int64_t o = 0; o < cuts.size(); ++o) {
      const std::int64_t centre =
          o * w.stride - w.pad_low + (w.extent() - 1) / 2;
      const std::int64_t nearest =
          std::clamp<std::int64_t>(centre, 0, inputs - 1);
      ASSERT_EQ(cuts.owner(o), owners.owner(nearest))
          << name_of(w, inputs) << " cut " << owners.text() << " output " << o;
    }
  });
}

TEST(WindowTest, HalosOfFollowingOutputsStayBelowHalfAWindow) {
  const Window w{.kernel = 7, .pad_low = 3, .pad_high = 3};
  Cuts cuts = Cuts::balanced(31, 4);
  for (int depth = 0; depth < 10; ++depth) {
    const Cuts next = following_cuts(w, cuts);
    for (int part = 0; part < 4; ++part) {
      const Interval need = clamp(needed(w, next[part]), 31).inside;
      EXPECT_LE(cuts[part].begin - need.begin, 3);
      EXPECT_LE(need.end - cuts[part].end, 3);
    }
    cuts = next;
  }
}

TEST(WindowTest, TransposedIsTheSameSeenFromTheOtherSide) {
  for_each_window([](const Window& w, std::int64_t inputs) {
    if (w.ceil_mode) return;
    const std::int64_t least = (inputs - 1) * w.stride + w.extent();
    if (least < w.pad_low + w.pad_high) return;
    const std::int64_t outputs = transposed_size(w, inputs, w.stride - 1);
    ASSERT_EQ(outputs, least - w.pad_low - w.pad_high + w.stride - 1);
    for (std::int64_t u = 0; u < outputs; u += 2) {
      const Interval wanted{u, std::min(outputs, u + 3)};
      const Interval need = transposed_needed(w, wanted, inputs);
      const Interval made = transposed_produced(w, need);
      for (std::int64_t i = 0; i < inputs; ++i) {
        if (reaches(w, i, wanted)) ASSERT_TRUE(need.contains(i));
        const Interval of_one = needed(w, {i, i + 1});
        if (need.contains(i)) ASSERT_TRUE(made.contains(of_one));
      }
    }
    const Cuts owners = Cuts::balanced(inputs, 2);
    const Cuts cuts = transposed_following_cuts(w, owners, w.stride - 1);
    ASSERT_EQ(cuts.size(), outputs);
    ASSERT_EQ(cuts.parts(), 2);
  });
}

TEST(WindowTest, TransposedOutputsFollowTheirInputs) {
  // Upsampling by 2 needs no halo, or a halo of 1.
  EXPECT_EQ(transposed_following_cuts({.kernel = 2, .stride = 2},
                                      Cuts({0, 5, 5, 9}), 0)
                .text(),
            "0|10|10|18");
  EXPECT_EQ(transposed_following_cuts(
                {.kernel = 4, .stride = 2, .pad_low = 1, .pad_high = 1},
                Cuts({0, 5, 9}), 0)
                .text(),
            "0|10|18");
}

TEST(WindowTest, ThatDoesNotFitIsAnError) {
  expect_throws<UsageError>(
      [] { output_size({.kernel = 4, .dilation = 3}, 8); },
      {"window of 10", "kernel 4", "8 inputs"});
  expect_throws<UsageError>([] { output_size({.kernel = 0}, 8); },
                            {"kernel 0"});
  expect_throws<UsageError>([] { output_size({.stride = 0}, 8); },
                            {"stride 0"});
  expect_throws<UsageError>([] { output_size({.pad_low = -1}, 8); }, {"-1"});
  expect_throws<UsageError>(
      [] { transposed_size({.kernel = 1, .pad_low = 5}, 2, 0); }, {"kernel 1"});
}

}  // namespace
}  // namespace sheaf::halo

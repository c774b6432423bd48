#include "sheaf/topo/fit.hpp"

#include <cmath>
#include <random>

#include "tests/support/expect_error.hpp"

namespace sheaf::topo {
namespace {

// One sample for each power of two from 8 B to 64 MiB.
std::vector<Sample> exact_samples(const Link& link) {
  std::vector<Sample> samples;
  for (int i = 3; i <= 26; ++i) {
    const double bytes = std::ldexp(1.0, i);
    samples.push_back({bytes, message_time_us(link, bytes)});
  }
  return samples;
}

void expect_near(const Link& fitted, const Link& truth, double relative) {
  EXPECT_NEAR(fitted.latency_us, truth.latency_us, relative * truth.latency_us);
  EXPECT_NEAR(fitted.bandwidth_gbs, truth.bandwidth_gbs,
              relative * truth.bandwidth_gbs);
}

TEST(FitLink, ExactTimesGiveTheLinkBack) {
  for (const Link link : {Link{0.3, 8}, Link{50, 0.117}, Link{2, 400}}) {
    const LinkFit fit = fit_link(exact_samples(link));
    expect_near(fit.link, link, 1e-6);
    EXPECT_LT(fit.residual, 1e-6);
    EXPECT_EQ(fit.used, 24);
    EXPECT_EQ(fit.dropped, 0);
  }
}

TEST(FitLink, TwoSamplesAreEnough) {
  const LinkFit fit = fit_link({{0, 5}, {1000, 6}});
  EXPECT_NEAR(fit.link.latency_us, 5, 1e-9);
  EXPECT_NEAR(fit.link.bandwidth_gbs, 1, 1e-9);
}

// Small messages must count as much as large ones: in absolute terms the
// noise of the 64 MiB sample is larger than the whole latency.
TEST(FitLink, RelativeNoiseLeavesBothNear) {
  const Link truth{30, 1.1};
  std::mt19937 random(1);
  std::uniform_real_distribution<double> noise(0.95, 1.05);
  std::vector<Sample> samples;
  for (int repeat = 0; repeat < 20; ++repeat)
    for (const Sample& sample : exact_samples(truth))
      samples.push_back({sample.bytes, sample.time_us * noise(random)});
  const LinkFit fit = fit_link(samples);
  // 480 samples with a deviation of 2.9 %: the means are within 1 %.
  expect_near(fit.link, truth, 0.01);
  EXPECT_NEAR(fit.residual, 0.1 / std::sqrt(12.0), 0.005);
}

TEST(FitLink, OutliersAreDropped) {
  const Link truth{30, 1.1};
  std::vector<Sample> samples = exact_samples(truth);
  samples[0].time_us *= 40;  // the first message
  samples[10].time_us *= 3;  // other traffic on the link
  samples.back().time_us *= 2;
  samples[5].time_us /= 10;  // a clock that jumped
  const LinkFit fit = fit_link(samples);
  expect_near(fit.link, truth, 1e-3);
  EXPECT_EQ(fit.dropped, 4);
  EXPECT_EQ(fit.used, 20);
}

TEST(FitLink, LatencyIsNeverNegative) {
  const LinkFit fit = fit_link({{1000, 0.5}, {2000, 2}, {4000, 5}, {8000, 11}});
  EXPECT_EQ(fit.link.latency_us, 0);
  EXPECT_GT(fit.link.bandwidth_gbs, 0);
  EXPECT_GT(fit.residual, 0);
}

TEST(FitLink, AnEmptyMessageMayTakeNextToNothing) {
  const LinkFit fit = fit_link({{0, 1e-9}, {1000, 1}, {2000, 2}, {4000, 4}});
  EXPECT_NEAR(fit.link.bandwidth_gbs, 1, 1e-6);
  EXPECT_TRUE(std::isfinite(fit.residual));
}

TEST(FitLink, RejectsInsufficientSamples) {
  expect_throws<UsageError>([] { fit_link({}); }, {"two sizes", "0 samples"});
  expect_throws<UsageError>([] { fit_link({{8, 1}, {8, 2}}); }, {"two sizes"});
  expect_throws<UsageError>(
      [] {
        fit_link({{8, 1}, {16, 0}});
      },
      {"0 us", "> 0"});
  expect_throws<UsageError>([] { fit_link({{8, 1}, {-1, 1}}); }, {"-1 bytes"});
  expect_throws<UsageError>(
      [] {
        fit_link({{8, 1}, {16, std::nan("")}});
      },
      {"nan"});
  expect_throws<UsageError>(
      [] {
        fit_link({{8, 2}, {1024, 1}});
      },
      {"do not grow", "larger"});
}

}  // namespace
}  // namespace sheaf::topo

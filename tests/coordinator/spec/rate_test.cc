#include "coordinator/spec/rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace iclsweep {
namespace {

TEST(RateTest, FindsFixedCostsAndRates) {
  // 0.5 s a job, 1 ms a pass, 10 GFLOP/s: exactly.
  std::vector<MeasuredJob> jobs;
  for (const double passes : {10.0, 100.0, 1000.0}) {
    for (const double flops : {1e8, 1e10, 3e11})
      jobs.push_back({{passes, flops}, 0.5 + 1e-3 * passes + 1e-10 * flops});
  }
  const Rate rate(jobs);
  EXPECT_NEAR(rate.Seconds({0, 0}), 0.5, 1e-6);
  EXPECT_NEAR(rate.Seconds({2000, 6e11}), 62.5, 1e-3);
  EXPECT_NEAR(rate.low(), 1 / (1 + 1 / 3.0), 1e-6);
  EXPECT_NEAR(rate.high(), 1 + 1 / 3.0, 1e-6);
  EXPECT_EQ(rate.jobs(), 9U);
}

TEST(RateTest, OneJobIsScaledAndTheIntervalIsAFactorOfTwo) {
  const Rate rate(std::vector<MeasuredJob>{{{10, 1e9}, 4}});
  EXPECT_NEAR(rate.Seconds({10, 1e9}), 4, 1e-9);
  EXPECT_DOUBLE_EQ(rate.low(), 0.5);
  EXPECT_DOUBLE_EQ(rate.high(), 2);
}

TEST(RateTest, NothingGetsShorterWithMoreWork) {
  // Larger jobs happened to be faster.
  const Rate rate(
      std::vector<MeasuredJob>{{{10, 1e9}, 5}, {{20, 2e9}, 4}, {{30, 3e9}, 3}});
  double before = 0;
  for (const double work : {0.0, 1e9, 5e9, 1e12}) {
    const double seconds = rate.Seconds({work / 1e8, work});
    EXPECT_GE(seconds, before);
    before = seconds;
  }
  EXPECT_GT(before, 0);
}

// Jobs of three sizes whose times scatter by a known law: the total comes out,
// and nine of ten new jobs lie in the interval.
TEST(RateTest, IntervalHoldsNineOfTenJobs) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  const auto draw = [&](double flops) {
    return MeasuredJob{{flops / 1e7, flops},
                       (0.1 + 1e-9 * flops) * std::exp(0.3 * normal(random))};
  };
  const auto sample = [&](int count) {
    std::vector<MeasuredJob> jobs;
    jobs.reserve(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i)
      jobs.push_back(draw(std::pow(10.0, 7 + i % 3)));
    return jobs;
  };
  const std::vector<MeasuredJob> past = sample(900);
  const Rate rate(past);
  const std::vector<MeasuredJob> future = sample(3000);
  double expected = 0;
  double measured = 0;
  int inside = 0;
  for (const MeasuredJob& job : future) {
    const double seconds = rate.Seconds(job.work);
    expected += seconds;
    measured += job.seconds;
    if (job.seconds >= seconds * rate.low() &&
        job.seconds <= seconds * rate.high())
      ++inside;
  }
  // Standard error of the ratio: 0.3 * sqrt(1 / 900 + 1 / 3000) * about 1.6,
  // since the largest third carries the total.
  EXPECT_NEAR(expected / measured, 1, 0.07);
  EXPECT_NEAR(inside / 3000.0, 0.91, 0.03);
}

TEST(RateTest, KnowsWhatItHasNotSeen) {
  const Rate rate(std::vector<MeasuredJob>{{{10, 1e9}, 1}, {{10, 1e10}, 10}});
  EXPECT_TRUE(rate.Covers({10, 3e9}));
  EXPECT_TRUE(rate.Covers({10, 2.9e10}));
  EXPECT_FALSE(rate.Covers({10, 3.1e10}));
  EXPECT_FALSE(rate.Covers({10, 3.2e8}));
}

TEST(RateTest, TimesOfZeroAreNoProblem) {
  const Rate rate(std::vector<MeasuredJob>{{{0, 0}, 0}, {{0, 0}, 0}});
  EXPECT_TRUE(std::isfinite(rate.Seconds({0, 5})));
  EXPECT_GE(rate.Seconds({0, 5}), 0);
}

}  // namespace
}  // namespace iclsweep
